"""Where the noise ends, and what that gives away: a bound that accounting takes off delta. No torch."""

import math

# The noise is made in pairs (Box and Muller) from a uniform of at least 2^-73: no pair is longer than this many
# standard deviations. `noise.py` draws it so on every device.
NOISE_TAIL = math.sqrt(2 * 73 * math.log(2))

# More pairs than any step releases: models of up to two billion parameters.
_MOST_PAIRS = 2.0**30


def uncovered(noise_multiplier: float, steps: float) -> float:
    """A bound on the probability that `steps` releases show, by the end of the noise's tail, whether an example is in.

    Divide every released number by its standard deviation. One example then moves a step's release by a vector of
    length at most s = 1/nu, a_j of it in pair j, and the noise of each pair lies in a disc of radius T = `NOISE_TAIL`,
    distributed like a Gaussian conditioned on that disc. Both worlds condition with the same constant, so wherever both
    can reach, the likelihood ratio of a step is exactly the ideal Gaussian's. Where only one can reach, some pair of
    its noise is shorter than T, and longer than T - a_j: of probability f(a_j), f(a) = exp(-(T - a)^2 / 2) - exp(-T^2 /
    2), since the length of an ideal pair exceeds r with probability exp(-r^2 / 2).

    Which shift is the worst? Not only the one within a single pair: f starts with a slope, so a shift that is spread
    over J pairs of a large model adds up too. f'' increases as long as a <= T - sqrt(3), hence so does
    (f(a) - f'(0) a) / a^2, and with sum a_j^2 = s^2 and sum a_j <= sqrt(J) s (Cauchy and Schwarz)

        sum_j f(a_j) <= f'(0) sum_j a_j + sum_j (a_j / s)^2 f(s) <= T s sqrt(J) exp(-T^2 / 2) + exp(-(T - s)^2 / 2).

    n adaptive steps leave the common region with at most n times that probability, in either world, and within it are
    as private as the ideal mechanism: what is returned here adds to delta. The sampling rate does not lower it, as a
    step without the example can land where a step with it cannot.
    """
    if steps == 0 or noise_multiplier == math.inf:
        return 0.0
    shift = 1 / noise_multiplier if noise_multiplier > 0 else math.inf
    if shift > NOISE_TAIL - math.sqrt(3):
        return 1.0
    spread = NOISE_TAIL * shift * math.sqrt(_MOST_PAIRS) * math.exp(-(NOISE_TAIL**2) / 2)
    return min(1.0, steps * (spread + math.exp(-((NOISE_TAIL - shift) ** 2) / 2)))


def ideal_delta(delta: float, lost: float, steps: float) -> float:
    """The delta that is left for an ideal Gaussian mechanism; 0 where the tail takes all of it.

    The densities of n steps are the ideal ones divided by (1 - exp(-T^2 / 2))^(n J), or cut off: so is their delta.
    """
    cut_off = steps * _MOST_PAIRS * math.exp(-(NOISE_TAIL**2) / 2)
    return max(0.0, delta - lost) * max(0.0, 1 - cut_off)


def smallest_delta(steps: int) -> float:
    """The smallest delta that `steps` compositions may ask for: of this, noise multipliers from 1 on use up half."""
    return 2 * uncovered(1.0, steps)
