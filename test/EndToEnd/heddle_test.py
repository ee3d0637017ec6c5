# Helpers of the end-to-end tests: files, models, the compiler, its binaries.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the end-to-end tests share.

Every test file runs singly (`python3 test/EndToEnd/test_gradients.py`) and all
together (`run.py`). They need a build (HEDDLE_BUILD, by default build/release)
and numpy; those that compare with PyTorch are skipped without it.
"""

import fcntl
import filecmp
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HEDDLE_BUILD", os.path.join(ROOT, "build", "release"))
HEDDLE = os.path.join(BUILD, "bin", "heddle")
TIMEOUT = 300

try:
    import torch  # noqa: F401

    HAS_TORCH = True
except ImportError:
    HAS_TORCH = False

needs_torch = unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")

LONG = os.environ.get("HEDDLE_TEST_LONG") == "1"
long_only = unittest.skipUnless(LONG, "takes long: HEDDLE_TEST_LONG=1")

MPIRUN = next(filter(shutil.which, ["mpirun.openmpi", "mpirun.mpich"]), None)
needs_mpi = unittest.skipUnless(MPIRUN, "no MPI is installed")


# --- safetensors ------------------------------------------------------------

DTYPES = {"U8": "u1", "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4",
          "U8": "u1", "I8": "|i1"}


def read_safetensors(path):
    """All tensors of a file; bf16 comes as float32."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in info["data_offsets"])
        if info["dtype"] == "BF16":
            wide = np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16
            values = wide.view(np.float32)
        else:
            values = np.frombuffer(data[begin:end], DTYPES[info["dtype"]])
        tensors[name] = values.reshape(info["shape"])
    return tensors


def write_safetensors(path, tensors, metadata=None):
    names = {np.dtype(code): name for name, code in DTYPES.items()}
    header, chunks, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = metadata
    for name, value in tensors.items():
        value = np.array(value, order="C", copy=False)
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        chunks.append(value.tobytes())
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


# --- models and data --------------------------------------------------------

def gpt2_config(vocab=97, positions=32, embed=48, layers=2, heads=4, dropout=0.0,
                **extra):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
              "vocab_size": vocab, "n_positions": positions, "n_embd": embed,
              "n_layer": layers, "n_head": heads, "n_inner": None,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
              "initializer_range": 0.02, "resid_pdrop": dropout,
              "embd_pdrop": dropout, "attn_pdrop": dropout,
              "bos_token_id": vocab - 1, "eos_token_id": vocab - 1,
              "tie_word_embeddings": True, "torch_dtype": "float32"}
    config.update(extra)
    return config


def gpt2_shapes(config):
    """Name and shape of every parameter, as Hugging Face stores them."""
    c, inner = config["n_embd"], config["n_inner"] or 4 * config["n_embd"]
    shapes = {"wte.weight": (config["vocab_size"], c),
              "wpe.weight": (config["n_positions"], c)}
    for i in range(config["n_layer"]):
        block = {"ln_1.weight": (c,), "ln_1.bias": (c,),
                 "attn.c_attn.weight": (c, 3 * c), "attn.c_attn.bias": (3 * c,),
                 "attn.c_proj.weight": (c, c), "attn.c_proj.bias": (c,),
                 "ln_2.weight": (c,), "ln_2.bias": (c,),
                 "mlp.c_fc.weight": (c, inner), "mlp.c_fc.bias": (inner,),
                 "mlp.c_proj.weight": (inner, c), "mlp.c_proj.bias": (c,)}
        shapes.update({f"h.{i}.{name}": shape for name, shape in block.items()})
    shapes.update({"ln_f.weight": (c,), "ln_f.bias": (c,)})
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], c)
    return shapes


def random_weights(config, seed=1):
    """Weights with biases and norms that are no zeros and ones."""
    generator = np.random.default_rng(seed)
    weights = {}
    for name, shape in gpt2_shapes(config).items():
        value = generator.standard_normal(shape) * 0.08
        if name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")):
            value = 1 + 2 * value
        weights[name] = value.astype(np.float32)
    return weights


def write_model(directory, config, weights, prefix="transformer."):
    """A model directory as Hugging Face would save it."""
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    named = {name if name.startswith("lm_head") else prefix + name: value
             for name, value in weights.items()}
    write_safetensors(os.path.join(directory, "model.safetensors"), named)


def random_tokens(count, vocab, seed=5):
    """Tokens that a model can learn something about: few of them are common,
    and each says something of the next."""
    generator = np.random.default_rng(seed)
    common = generator.zipf(1.5, count) % max(1, vocab // 2)
    follows = (np.roll(common, 1) * 3 + 1) % vocab
    return np.where(generator.random(count) < 0.5, common, follows).astype(np.int64)


def write_tokens(path, tokens):
    """A token file in llm.c's format."""
    header = np.zeros(256, np.int32)
    header[:3] = 20240520, 1, len(tokens)
    with open(path, "wb") as file:
        file.write(header.tobytes() + np.asarray(tokens, "<u2").tobytes())


def batch(tokens, step, rows, seq):
    """Inputs and labels of a step, counted from 0: the fixed order of data."""
    step %= (len(tokens) - 1) // (rows * seq)
    windows = [tokens[(step * rows + row) * seq:][:seq + 1] for row in range(rows)]
    windows = np.stack(windows)
    return windows[:, :-1], windows[:, 1:]


def write_inputs(path, tokens, steps, rows, seq):
    """The first batches as inputs of `heddle eval`."""
    inputs = {}
    for step in range(steps):
        for name, value in zip(("ids", "labels"), batch(tokens, step, rows, seq)):
            inputs[f"{name}@{step + 1}"] = value.astype(np.int32)
    write_safetensors(path, inputs)


def ds_config(lr=1e-3, clip=1.0, decay=0.01, warmup=None, eps=1e-8, **extra):
    config = {"optimizer": {"type": "AdamW",
                            "params": {"lr": lr, "betas": [0.9, 0.999], "eps": eps,
                                       "weight_decay": decay}},
              "gradient_clipping": clip}
    if warmup:
        config["scheduler"] = {"type": "WarmupLR",
                               "params": {"warmup_min_lr": 0, "warmup_max_lr": lr,
                                          "warmup_num_steps": warmup,
                                          "warmup_type": "linear"}}
    config.update(extra)
    return config


def draw_zero3_limits(pick):
    """What bounds what ZeRO 3 gathers, and when."""
    limits = {"param_persistence_threshold": [0, 100, 3000],
              "model_persistence_threshold": [1000, 10000, 1e9],
              "prefetch_bucket_size": [0, 5000, 1e9],
              "max_live_parameters": [1000, 30000, 1e9],
              "max_reuse_distance": [0, 10000, 1e9]}
    return {"stage3_" + name: pick.choice(values) for name, values in limits.items()}


def warmup_rates(lr, warmup, steps):
    """The rates of DeepSpeed's optimizer under WarmupLR, linear: its updates see
    the formula one step late."""
    if not warmup:
        return [lr] * steps
    return [lr * min(1.0, max(0, step - 1) / warmup) for step in range(steps)]


class Parameters:
    """The weights of an oracle, by name, in PyTorch's float64."""

    def __init__(self, weights):
        import torch
        self.torch = torch
        self.weights = {name: torch.tensor(value, dtype=torch.float64,
                                           requires_grad=True)
                        for name, value in weights.items()}

    def parameters(self):
        return list(self.weights.values())


# --- running ----------------------------------------------------------------

class Failed(AssertionError):
    """A command that ended with another status than 0."""


def setting_rows():
    """The table of docs/reference/settings.md, a dictionary for each row."""
    with open(os.path.join(ROOT, "docs/reference/settings.md")) as file:
        lines = [line.strip().strip("|").split("|") for line in file
                 if line.startswith("|")]
    names = [cell.strip() for cell in lines[0]]
    rows = [[cell.strip() for cell in line] for line in lines[2:]]
    return [dict(zip(names, row)) for row in rows if len(row) == len(names)]


def run(command, status=0, **options):
    """Runs a command to its end; raises unless it exits with `status`."""
    options.setdefault("timeout", TIMEOUT)
    result = subprocess.run([str(part) for part in command], text=True,
                            capture_output=True, **options)
    if result.returncode != status:
        raise Failed(f"{' '.join(map(str, command))}\nexited with "
                     f"{result.returncode}, not {status}\n{result.stdout[-2000:]}"
                     f"{result.stderr[-4000:]}")
    return result


def without_ptxas():
    """An environment in which ptxas is found, but assembles nothing."""
    here = os.path.dirname(os.path.abspath(__file__))
    return dict(os.environ, PATH=os.path.join(here, "without_ptxas") + ":" +
                os.environ["PATH"])


# For emulations that repeat what others checked in full: about twice as fast.
LIGHT = {} if LONG else {"HEDDLE_EMULATE_CHECK": "light"}


def run_ranks(ranks, command, status=0, **variables):
    """Runs a command on so many ranks, with these environment variables too."""
    if ranks > 1:
        oversubscribe = ["--oversubscribe"] if "openmpi" in MPIRUN else []
        command = [MPIRUN, *oversubscribe, "-n", ranks, *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
    return run(command, status, env=environment)


def processor_seconds():
    """Of all programs that this process started and that ended. What else runs on the
    machine changes it least."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class ServerProcess:
    """A server that is killed at the end of a `with`; `process` is its Popen."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def latest_of(folder):
    """The last checkpoint that was saved there."""
    with open(os.path.join(folder, "latest")) as file:
        return os.path.join(folder, file.read().strip())


def bytes_saved(folder):
    """The files of tensors of the last checkpoint that was saved there, as bytes."""
    found = []
    for name in ("model.safetensors", "heddle/optimizer.safetensors"):
        with open(os.path.join(latest_of(folder), name), "rb") as file:
            found.append(file.read())
    return found


def read_saved(folder):
    """The weights of the last checkpoint that was saved there."""
    return read_safetensors(os.path.join(latest_of(folder), "model.safetensors"))


def read_log(path, event="step"):
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    return [line for line in lines if line["event"] == event]


def has_steps(path):
    """Whether a run that may still write the log has finished a step."""
    with open(path) as file:
        return '"event":"step"' in file.read().replace(" ", "")


def relative(actual, expected, floor=0.0):
    """The norm of the difference, by the norm of what is expected."""
    actual, expected = (np.asarray(x, np.float64) for x in (actual, expected))
    difference = np.linalg.norm((actual - expected).ravel())
    return difference / max(np.linalg.norm(expected.ravel()), floor, 1e-300)


def oracle_python():
    """A Python with the packages of test/Oracles/requirements.txt; the first call
    makes an environment for it beside the build."""
    folder = os.path.join(BUILD, "oracles")
    python = os.path.join(folder, "bin", "python")
    here = os.path.dirname(os.path.abspath(__file__))
    packages = os.path.join(here, "..", "Oracles", "requirements.txt")
    complete = os.path.join(folder, "complete")  # With what was installed.
    with open(folder + ".lock", "w") as lock:  # Tests run beside each other.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (os.path.exists(complete)
                and filecmp.cmp(packages, complete, shallow=False)):
            run([sys.executable, "-m", "venv", "--clear", folder])
            run([python, "-m", "pip", "install", "--quiet", "-r", packages])
            shutil.copy(packages, complete)
    return python


def batches_of(data):
    """The flags for a token file, or for batches that are spelled out."""
    return ["--inputs" if str(data).endswith(".safetensors") else "--data", data]


def run_with_packages(file, name):
    """Runs a test that needs one of these packages, and would be skipped without."""
    said = run([oracle_python(), os.path.abspath(file), name]).stderr
    if "skipped" in said:
        raise Failed(f"{name} was skipped\n{said[-2000:]}")


class HeddleTest(unittest.TestCase):
    """Tests of one folder, in which each has one of its own, so that none finds what
    another left. All go in the end."""

    runs_alone = False  # Whether run.py runs nothing beside this class.
    takes_long = False  # Whether run.py begins with it: few tests, each a long one.
    folder = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="heddle-e2e-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def run(self, result=None):
        if self.folder:  # Not where the whole class is skipped.
            self.folder = os.path.join(self.folder, self._testMethodName)
            os.mkdir(self.folder)
        return super().run(result)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def make_model(self, name="model", seed=1, prefix="transformer.", **options):
        """Writes a model directory; gives its path, configuration and weights."""
        config = gpt2_config(**options)
        weights = random_weights(config, seed)
        write_model(self.path(name), config, weights, prefix)
        return self.path(name), config, weights

    def make_tokens(self, count, vocab, name="tokens.bin", seed=5):
        tokens = random_tokens(count, vocab, seed)
        write_tokens(self.path(name), tokens)
        return self.path(name), tokens

    def compile(self, model, *flags, config=None, output="job", cache=None):
        """Compiles; gives the path of the binary. One for GPUs has no cubins: what is
        emulated needs none."""
        cache = cache or os.environ.get("HEDDLE_TEST_CACHE") or self.path("cache")
        command = [HEDDLE, "compile", model, "-o", self.path(output), "--cache",
                   cache, *flags]
        if config is not None:
            file = self.path(output + ".json")
            with open(file, "w") as stream:
                json.dump(config, stream, indent=2)
            command += ["--config", file]
        run(command, env=without_ptxas())
        return self.path(output)

    def train(self, binary, data, steps, *flags, name="run", ranks=1):
        """Trains on a token file, or on batches that are spelled out in a
        .safetensors; gives the steps of the log."""
        log = self.path(name + ".jsonl")
        if os.path.exists(log):
            os.remove(log)
        run_ranks(ranks, [binary, "train", *batches_of(data), "--steps", steps, "--log",
                          log, "--progress", "none", *flags])
        return read_log(log)

    def explain(self, binary, *flags):
        """What `heddle explain` says of a binary, as data."""
        return json.loads(run([HEDDLE, "explain", binary, "--json", *flags]).stdout)

    def assert_costs(self, most, known, other):
        """Processor seconds of `other` are at most `most` times those of `known`: the
        least of each, in up to eight tries, since a machine that others use adds up
        to half of the time. Both are functions that run programs."""
        least = {known: float("inf"), other: float("inf")}
        for _ in range(8):
            for each in least:
                before = processor_seconds()
                each()
                least[each] = min(least[each], processor_seconds() - before)
            if least[other] <= most * least[known]:
                return
        self.fail(f"{least[other]:.3f} s, not {most} times {least[known]:.3f} s")

    def assert_close(self, actual, expected, tolerance, what):
        error = relative(actual, expected)
        self.assertLessEqual(error, tolerance, what)
