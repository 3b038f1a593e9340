"""Commands that must be refused: one line, exit code 2, nothing written. `NEAR` also get a suggestion."""

SMOKE = "profile=smoke dataset=ag_news strategy=online strategy.lr=0.316"
QUANTILE = "profile=smoke dataset=ag_news strategy=fixed_quantile strategy.lr=0.316"
ADAM = "profile=smoke dataset=ag_news strategy=adam_wosm"

# One near miss each, and what is meant.
NEAR = {
    "runn": "run",
    "rnu": "run",
    "plann": "plan",
    "repotr": "report",
    "archiv": "archive",
    "tradeoff": "trade-off",
    "audti": "audit",
    "dta": "data",
    "data minst": "mnist",
    "data fashion-mnist": "fashion_mnist",
    "data agnews": "ag_news",
    "report --accountants pdl": "pld",
    f"run {SMOKE} dataset=minst": "mnist",
    f"run {SMOKE} dataset=fashion_mnis": "fashion_mnist",
    f"run {SMOKE} dataset=agnews": "ag_news",
    f"run {SMOKE} strategy=onlin": "online",
    f"run {SMOKE} strategy=adam_wsom": "adam_wosm",
    f"run {SMOKE} strategy=fixed_treshold": "fixed_threshold",
    f"run {SMOKE} profile=smok": "smoke",
    f"run {SMOKE} profile=papr": "paper",
    f"run {SMOKE} strategy.momentun=0": "strategy.momentum",
    f"run {SMOKE} ++strategy.momentun=0": "strategy.momentum",
    f"run {SMOKE} +strategy.momentun=0": "strategy.momentum",
    f"run {SMOKE} momentum=0": "strategy.momentum",
    f"run {SMOKE} epsilon=3": "privacy.epsilon",
    f"run {SMOKE} delta=1e-5": "privacy.delta",
    f"run {SMOKE} batch_size=10": "train.batch_size",
    f"run {SMOKE} epochs=1": "train.epochs",
    f"run {SMOKE} k=5": "grid.k",
    f"run {SMOKE} lr=0.1": "strategy.lr",
    f"run {SMOKE} limit=10": "dataset.limit",
    f"run {SMOKE} privacy.epsilonn=1": "privacy.epsilon",
    f"run {SMOKE} privacy.detla=1e-5": "privacy.delta",
    f"run {SMOKE} privacy.acountant=rdp": "privacy.accountant",
    f"run {SMOKE} train.batchsize=10": "train.batch_size",
    f"run {SMOKE} train.epoch=1": "train.epochs",
    f"run {SMOKE} train.evaluate_evry=1": "train.evaluate_every",
    f"run {SMOKE} grid.kk=5": "grid.k",
    f"run {SMOKE} grid.quantiles=[0.5]": "grid.quantile",
    f"run {SMOKE} grid.also.lrr=[1]": "grid.also.lr",
    f"run {SMOKE} +grid.also.quantle=[1]": "grid.also.quantile",
    f"run {SMOKE} dataset.limitt=10": "dataset.limit",
    f"run {SMOKE} dataset.standin=true": "dataset.stand_in",
    f"run {SMOKE} model.output_activaton=true": "model.output_activation",
    f"run {SMOKE} checkpoint.kep=all": "checkpoint.keep",
    f"run {SMOKE} checkpoint.keep=bets": "best",
    f"run {SMOKE} seedss=[1]": "seeds",
    f"run {SMOKE} sed=named": "seed",
    f"run {SMOKE} seed=secur": "secure",
    f"run {SMOKE} thread=1": "threads",
    f"run {SMOKE} devce=cpu": "device",
    f"run {SMOKE} device=cpuu": "cpu",
    f"run {SMOKE} device=gpu": "cpu",
    f"run {SMOKE} micro_bach=1": "micro_batch",
    f"run {SMOKE} run=x": "runs",
    f"run {SMOKE} point=all": "points",
    f"run {SMOKE} points=publishd": "published",
    f"run {SMOKE} epsilons=outr": "outer",
    f"run {SMOKE} privacy.accountant=rpd": "rdp",
    f"run {SMOKE} train.sampling=poison": "poisson",
    "run -m experiment=mnist_k": "mnist_k9",
    "run -m experiment=papr": "paper",
    "run -m hydra/launcher=jobli": "joblib",
    "run -m hydra.launcher.n_job=2": "hydra.launcher.n_jobs",
    "plan experiment=mnist_k": "mnist_k9",
    "plan profile=smok": "smoke",
    "plan protocol=paper_probabel": "paper_probable",
    "plan dataset=minst": "mnist",
    "plan strategy=onlin": "online",
    "plan --accountants pdl": "pld",
}

_NUMBERS = {
    "privacy.epsilon": "0 -1 nan -inf inf low null [] {} true",
    "privacy.delta": "0 1 -1 2 nan inf low null []",
    "train.batch_size": "0 -1 1.5 many null nan 100000 []",
    "train.epochs": "0 -1 nan inf many null 1e-9 [] -inf",
    "train.evaluate_every": "0 -1 1.5 often null nan []",
    "threads": "0 -1 1.5 many null 2000 nan",
    "micro_batch": "0 -1 1.5 many nan",
    "grid.k": "1 0 -1 2.5 five null nan []",
    "grid.times": "0 -1 1.5 many null",
    "dataset.limit": "0 -1 1.5 many 10000000 nan",
    "dataset.words": "0 -1 1000 1.5 many null",
    "dataset.emulate_size": "0 -1 100000 many 1.5",
    "strategy.lr": "0.5 0 -1 nan inf fast null [] true range(0,1,0)",
    "strategy.clip_init": "0 -1 nan inf small null",
    "strategy.clip_lr": "nan inf -1 fast null",
    "strategy.lr_lr": "nan inf -1 fast null",
    "strategy.momentum": "1 -1 2 nan inf heavy null range(0,1,0)",
    "strategy.gradient_share": "0.5 1 0 -1 nan inf some null",
}
_LISTS = {
    "grid.lr": "[1] [] [1,2,3] [2,1] [0,1] [-1,1] [1,inf] [a,b] 3 null {} [nan,1] [[1,2],3]",
    "grid.clip": "[1] [] [1,2,3] [a,b] 3 null",
    "grid.quantile": "[] [2] [0] [1] [nan] [a] 3 null",
    "grid.also.lr": "[0] [-1] [nan] [inf] [a] 3 null",
    "grid.also.clip": "[1] [a] 3",
    "grid.also.quantile": "[0.5] [2] 3",
    "grid.also": "3 [1] null {foo:[1]}",
    "grid.axes": "3 [1] {lr:[a]} {foo:[1]} {clip:[1]} {lr:[]} {lr:[0]}",
    "seeds": "[] [1,1] [a] [1.5] 3 null {} [null] [-1] [[1]] [true]",
}
_WORDS = {
    "seed": "7 random null [] {}",
    "device": "tpu null 0 cuda:x [] ''",
    "checkpoint.keep": "some null 3 []",
    "points": "some null 3",
    "epsilons": "some null 3",
    "train.sampling": "shuffled fixed_size 3 []",
    "privacy.accountant": "gdp null 3 [] rdp_worr",
    "strategy.update_rule": "newton null 3 []",
    "strategy.name": "fixed_threshold sgd null 5",
    "dataset.name": "cifar null 5 ../mnist",
    "dataset.stand_in": "perhaps null [] 3 0 1 -2 1.5 '3' nan",
    "model.output_activation": "perhaps null 3 1_0",
    "model.autoencoder_padding": "null a 1.5",
    "profile": "null 5 [] ../../x fast paper/x ''",
    "dataset": "null 5 [] {} cifar 'a b' ../mnist",
    "strategy": "null 5 [] {} sgd os:getcwd nothing:Nothing ''",
    "grid": "coarse null 5 {}",
    "experiment": "nope 5",
    "runs": "'' /proc/nowhere /dev/null/x null [] ${nope} true false nan inf 1e3 1.50 1_0",
    "quiet": "perhaps null 2 0",
}
_KEYS = """+nope=1 ++nope=1 nope=1 +a.b=1 +privacy.foo=1 ++privacy.foo=1 +strategy.noise_multiplier=0
 ++strategy.batch_size=1 +strategy.foo=1 +dataset.foo=1 +model.foo=1 +train.foo=1 +grid.foo=1 +grid.also.foo=[1]
 ++grid.also.foo=[1] +checkpoint.foo=1 +privacy.epsilon.foo=1 +strategy.lr.foo=1 +seeds.foo=1 ~privacy ~grid ~train
 ~model ~dataset ~strategy ~seeds ~runs ~checkpoint ~profile ~strategy.momentum ~privacy.epsilon ~grid.also
 ~nothing privacy=3 grid.also.lr.x=1 privacy.epsilon privacy.epsilon= =3 = privacy..epsilon=3 .=3
 strategy.lr=${nope} strategy.lr=${privacy.nope} privacy.epsilon=${oc.env:NOPE_NOT_SET} runs=${nope}
 strategy.momentum=${strategy.momentum} seeds=${nope} strategy=${nope} dataset=${nope} privacy.epsilon=${
 grid.k=5,7 strategy=glob(*) privacy.epsilon=choice(1,2) strategy.lr=interval(0,1) seeds=[0],[1]
 hydra.output_subdir=../x hydra.output_subdir=x hydra.run.dir=/tmp/x hydra.run.dir=../x hydra.sweep.dir=../x
 hydra.job.chdir=true hydra.launcher=null hydra.sweeper=null hydra.sweeper.plan_only=7 hydra.sweeper.plan_only=true
 hydra.launcher._target_=os.getcwd hydra.sweeper._target_=os.getcwd hydra/sweeper=basic hydra/job_logging=nope
 hydra.mode=NOPE hydra.mode=null hydra.nope=1 hydra=null hydra.callbacks.x._target_=os.getcwd
 +hydra.callbacks.x._target_=os.getcwd hydra.searchpath=[/tmp] hydra.verbose=nope hydra.job_logging=null
 strategy.lr=[1 strategy.lr={a strategy.lr='a strategy.lr=a:b:c: strategy.lr=!!python/x
 --resolve --shell-completion --experimental-rerun=x --config-name=nope --config-dir=/nope/nope --config-path=/nope
 --cfg=nope --package=nope --info=nope --nope -x --run=1 --multirun=1 -c"""
_SWEEPS = """dataset=null strategy=null profile=null protocol=null dataset=5 strategy=5 profile=5 dataset=mnist,null
 strategy=online,null strategy=online,sgd dataset=mnist,cifar profile=smoke,fast hydra.launcher=null
 hydra.sweeper=null hydra.sweeper.plan_only=7 hydra.launcher.n_jobs=-100000 hydra.launcher.n_jobs=0
 hydra.launcher.n_jobs=many hydra.launcher._target_=os.getcwd hydra.sweeper._target_=os.getcwd
 hydra.sweeper.params=3 hydra.sweeper.params=null hydra.sweeper.accountants=[gdp] hydra.sweeper.accountants=3
 strategy.momentum=range(0,1,0) strategy.momentum=0,heavy strategy.momentun=0,1 privacy.epsilon=0,3
 privacy.epsilon=-1,3 privacy.epsilon=nan,3 grid.k=1,5 grid.k=five,5 device=cpu,auto threads=1,2 micro_batch=1,2
 quiet=true,false checkpoint.keep=none,all experiment=mnist_k5,mnist_k7 experiment=nope seeds=[0],[0,0] runs=
 runs=a,/proc/b runs=,a strategy.lr=0.5 strategy.lr=glob(*) strategy=glob(nope*) strategy.lr=${nope}
 ~privacy ~strategy +nope=1,2 +strategy.nope=1,2 hydra.sweep.dir=../x hydra.sweep.subdir=../x
 hydra.output_subdir=../x hydra/launcher=nope hydra/sweeper=basic --resolve --shell-completion"""
_COMMANDS = """--nope | -x | nope | help2 | 5 | '' | run.py
 | data cifar | data --nope | data mnist cifar | data --clear-cache=1 | data ../mnist
 | report --nope | report --runs | report --runs nowhere | report --profile nope | report --profile ../x
 | report --profile /tmp | report --profile '' | report --profile . | report --accountants gdp
 | report --readme nowhere.md | report extra | report --variant | report --out | report --out /proc/x
 | archive | archive a | archive nowhere b | archive a b c | archive --nope | archive . x --profile ../x
 | archive nowhere nowhere/b | plan -m | plan --accountants | plan --accountants gdp | plan --nope
 | audit --nope | audit nope | trade-off -m | trade-off --multirun | trade-off hydra.mode=MULTIRUN
 | trade-off nope=1 | trade-off strategy=no_dp strategy.lr=0.1 | trade-off profile=smoke strategy.lr=0.316"""
_ODD = ["strategy.lr=a b", "strategy.lr=1\n2", "dataset=a b", "\u202e=3", "strategy.lr=\x1b[31m", "runs=a\0b"]

Table = dict[tuple[str, ...], str]


def table() -> Table:
    """Every command of the table, and what it must suggest ("" for nothing in particular)."""
    sweep = SMOKE.removesuffix("strategy.lr=0.316")
    lines = dict(NEAR)
    for keys in (_NUMBERS, _LISTS, _WORDS):
        lines |= {f"run {SMOKE} {key}={value}": "" for key, values in keys.items() for value in values.split()}
    lines |= {f"run {SMOKE} {word}": "" for word in _KEYS.split()}
    lines |= {f"run -m {sweep} {word}": "" for word in _SWEEPS.split()}
    lines |= {f"plan {sweep} {word}": "" for word in _SWEEPS.split()[:12]}
    quantiles = ("0", "1", "1.5", "-1", "nan", "inf", "half", "null", "0.4")
    lines |= {f"run {QUANTILE} strategy.quantile={value}": "" for value in quantiles}
    lines |= {f"run {ADAM} strategy.clip=1 strategy.beta={value}": "" for value in ("1", "-1", "nan", "slow")}
    lines |= {f"run {sweep.replace('online', name)}": "" for name in ("online", "fixed_threshold")}
    lines |= {line.strip(): "" for line in _COMMANDS.split("|")}
    found: Table = {tuple("" if word == "''" else word for word in line.split()): near for line, near in lines.items()}
    return found | {("run", *SMOKE.split(), word): "" for word in _ODD}
