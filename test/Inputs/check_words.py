#!/usr/bin/python3
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""usage: check_words.py HEDDLE BINARY

Checks what is said of words that a command line does not take, where it is known
what was meant; and that the driver knows all flags of binaries, and a binary all
of `heddle compile`. Runs in a directory with `model`.
"""

import re
import subprocess
import sys

heddle, binary = sys.argv[1:]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def flags_of(*words):
    text = run(*words, "--help")[1]
    return {flag for line in re.findall(r"^ +(-[^ ]+)", text, re.M)
            for flag in re.findall(r"--[a-z][a-z0-9_-]*", line)} - {"--help"}


def expect(words, message, help):
    """`heddle` and BINARY stand for the programs."""
    programs = {"heddle": heddle, "./job": binary}
    words = words.split(" ")
    status, text = run(programs[words[0]], *words[1:])
    assert status == 2, (words, status, text)
    wanted = re.escape(message) + r".*\n(.*\n)*?  help: " + re.escape(help)
    assert re.search(wanted, text), (words, text, message, help)


compile_flags = flags_of(heddle, "compile")
own = {verb: flags_of(binary, verb) for verb in (
    "train", "eval", "generate", "chat", "serve", "logits", "encode", "bench", "info", "check")}
for flag in sorted(compile_flags - own["info"]):
    status, text = run(binary, "info", flag)
    assert status == 2 and f"{flag} is a flag of " in text, (flag, text)
for flag in sorted(set().union(*own.values()) - compile_flags - {"--local_rank"}):
    status, text = run(heddle, "compile", "model", "-o", "x", flag)
    assert status == 2 and f"{flag} is a flag of " in text, (flag, text)

# A flag before the verb, without a verb, with other dashes, or of another verb.
expect("./job --data d.bin train --steps 1",
       "--data is a flag of the verb train, and comes before it",
       "write it after the verb: ./job train --data d.bin")
expect("./job --shuffle --steps 1", "--shuffle is a flag of the verb train, and there is no verb",
       "write ./job train --shuffle")
expect("./job train -data d.bin --steps 1", "there is no flag -data",
       "write --data d.bin in its place")
expect("./job generate --max_new_tokens=5", "there is no flag --max_new_tokens",
       "write --max-new-tokens 5 in its place")
expect("./job train --prompt A --steps 1", "--prompt is a flag of the verb generate, not of train",
       "leave it out, or write ./job generate --prompt A")
# Names of the Trainer, Megatron, vLLM and llama.cpp.
for theirs, ours in (("--max-steps 3", "--steps 3"), ("--max_steps=3", "--steps 3"),
                     ("--train-iters 3", "--steps 3"), ("--output_dir out", "--save out"),
                     ("--save_steps 5", "--save-every 5"),
                     ("--save_total_limit 2", "--keep-last 2"),
                     ("--eval_steps 5", "--val-every 5"),
                     ("--resume_from_checkpoint out", "--resume out"),
                     ("--logging_dir logs", "--log-tensorboard logs")):
    expect(f"./job train --data d.bin {theirs}", "there is no flag " + re.split("[ =]", theirs)[0],
           f"write {ours} in its place")
for verb, theirs, ours in (("generate", "--max-tokens 5", "--max-new-tokens 5"),
                           ("generate", "--temp 0.5", "--temperature 0.5"),
                           ("generate", "-prompt A", "--prompt A"), ("generate", "-p A", "--prompt A"),
                           ("serve", "--model m", "--weights m"),
                           ("serve", "--allowed-origins *", "--allow-origin '*'")):
    expect(f"./job {verb} {theirs}", "there is no flag " + theirs.split(" ")[0],
           f"write {ours} in its place")
expect("./job train --num_train_epochs 3", "there is no flag --num_train_epochs",
       "steps are counted, not epochs")
# What compile decides.
expect("./job train --steps 1 --batch 8", "--batch is a flag of heddle compile, and fixed in the binary",
       "leave it out, or compile again: heddle compile MODEL --batch 8 -o BINARY")
expect("./job train --per_device_train_batch_size 8",
       "there is no flag --per_device_train_batch_size: --micro-batch is a flag of heddle compile",
       "leave it out, or compile again: heddle compile MODEL --micro-batch 8 -o BINARY")
expect("./job serve --tensor-parallel-size 2",
       "there is no flag --tensor-parallel-size: --mesh is a flag of heddle compile",
       "leave it out, or compile again: heddle compile MODEL --mesh tensor=2 -o BINARY")
expect("./job serve --max-model-len 100",
       "there is no flag --max-model-len: --max-context is a flag of heddle compile",
       "leave it out, or compile again: heddle compile MODEL --max-context 100 -o BINARY")
expect("./job train --bf16", "there is no flag --bf16: --precision is a flag of heddle compile",
       "leave it out, or compile again: heddle compile MODEL --precision bf16 -o BINARY")
# A word without its flag, and verbs of heddle.
expect("./job train d.bin --steps 1", "nothing takes the word d.bin", "write --data d.bin")
expect("./job serve --access-log a.log", "nothing takes the word a.log",
       "write --access-log=a.log")
expect("./job explain", "explain is a verb of heddle, not of a binary", "write heddle explain ./job")

# The same at heddle.
expect("heddle compile model --learning-rate 1e-4 -o x", "there is no flag --learning-rate",
       "write --lr 1e-4 in its place")
expect("heddle compile model --dtype bfloat16 -o x", "there is no flag --dtype",
       "write --precision bf16 in its place")
expect("heddle compile model --optimizer lion -o x", '"lion" is not one of', "did you mean Lion?")
expect("heddle compile model --data d.bin -o x", "--data is a flag of compiled binaries",
       "give it to the binary: ./x train --data d.bin")
expect("heddle compile model --max_steps 3 -o x",
       "there is no flag --max_steps: --steps is a flag of compiled binaries",
       "give it to the binary: ./x train --steps 3")
expect("heddle compile --model model -o x", "the model has no flag: it is a word by itself",
       "write heddle compile model")
expect("heddle compile model x", "nothing takes the word x", "write -o x")
expect("heddle serve model", "serve is a verb of compiled binaries",
       "compile the model, as heddle compile model --mode serve -o job, then write ./job serve")
expect("heddle train model/config.json --steps 1", "train is a verb of compiled binaries",
       "compile the model, as heddle compile model/config.json --init random -o job, "
       "then write ./job train")
expect("heddle info job", "info is a verb of compiled binaries", "write ./job info")
expect("heddle export model", "there is no verb export", "write heddle checkpoint export")
expect("heddle eval job --data d.bin", "--data is a flag of compiled binaries",
       "give it to the binary: ./job eval --data d.bin")
expect("heddle run -n 2 job train",
       "there is no flag -n: a binary says itself how many ranks it has", "leave it out")
expect("heddle eval job", "job is a program, not a module (.mlir)",
       "a compiled binary is run: ./job eval --data FILE")
expect("heddle compile job -o x", "job is a program, not a model",
       "a compiled binary is run: ./job info")
expect("heddle compile model/model.safetensors -o x",
       "model/model.safetensors is a safetensors file, not a model",
       "give its directory: heddle compile model")
