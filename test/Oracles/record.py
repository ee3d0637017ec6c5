#!/usr/bin/env python3
# Records what Hugging Face's transformers compute.
#
# Part of the Heddle project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""record.py [--check] [NAME ...]

Trains the models of models.py with transformers and PyTorch, in double precision,
and writes models/NAME.json for each: its configuration, the shapes of its parameters, and
of the first step the logits and gradients, of all steps the loss and the norm of
the gradients, the parameters at the end, and what these write. With --check compares them with the
files. Needs the packages of requirements.txt; test/EndToEnd/test_recorded.py, which
compares Heddle with the records, needs none of them. Of models that serve it writes
served/NAME.json: some logits of a text, and how beginnings of it are continued;
these are names as served/NAME, for test/EndToEnd/test_serve_recorded.py. The same of
weights in fp16 is in fp16/NAME.json: the logits in double precision, and how far off
they are where transformers compute in fp16."""

import argparse
import json
import os
import sys

import models
import numpy as np
import torch
import transformers

FOLDER = os.path.dirname(os.path.abspath(__file__))


def build(config):
    """The model in float64 with its weights of models.py, and their shapes."""
    settings = transformers.AutoConfig.for_model(**config)
    settings._attn_implementation = "eager"
    kind = (transformers.AutoModelForMaskedLM if config["model_type"] == "bert"
            else transformers.AutoModelForCausalLM)
    model = kind.from_config(settings).double().train()
    shapes = {}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shapes[name] = list(parameter.shape)
            parameter.copy_(torch.tensor(models.weight(name, shapes[name])))
    # Kept in float32 by the constructor: positions turn by float64 here.
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            inverse, module.attention_scaling = module.rope_init_fn(
                settings, torch.device("cpu"))
            module.inv_freq = inverse
    return model, shapes


def causal_batch(model, tokens, step):
    """The logits and the labels of a step of tokens that follow each other."""
    first = step * models.ROWS * models.SEQ
    windows = np.stack([tokens[first + row * models.SEQ:][:models.SEQ + 1]
                        for row in range(models.ROWS)])
    return model(torch.tensor(windows[:, :-1])).logits, windows[:, 1:]


def masked_batch(model, rows, step):
    """The same of a step of masked rows."""
    part = {name: torch.tensor(value[step * models.ROWS:][:models.ROWS])
            for name, value in rows.items()}
    seen = torch.arange(models.SEQ) < part["lengths"][:, None]
    logits = model(part["ids"], attention_mask=seen.long(),
                   token_type_ids=part["segments"]).logits
    return logits, part["labels"].numpy()


def train(config):
    model, shapes = build(config)
    is_masked = config["model_type"] == "bert"
    tokens = models.tokens(config["vocab_size"])
    rows = models.masked_rows(config) if is_masked else None
    optimizer = torch.optim.AdamW(model.parameters(), **models.ADAMW)
    record = {"config": config, "weights": shapes, "loss": [], "grad_norm": []}
    for step in range(models.STEPS):
        logits, labels = (masked_batch(model, rows, step) if is_masked
                          else causal_batch(model, tokens, step))
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), torch.tensor(labels).flatten())
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            record["logits"] = models.summary("logits", logits.detach())
            record["gradients"] = {name: models.summary(name, parameter.grad)
                                   for name, parameter in model.named_parameters()}
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), models.CLIP)
        optimizer.step()
        record["loss"].append(loss.item())
        record["grad_norm"].append(norm.item())
    record["final"] = {name: models.summary(name, parameter.detach())
                       for name, parameter in model.named_parameters()}
    if not is_masked:
        record["generated"] = generate(model.eval(), tokens[:models.PROMPT],
                                       models.GENERATED)
    return rounded(record)


def serve(config):
    model, shapes = build(config)
    tokens = models.text(config["vocab_size"])
    with torch.no_grad():
        logits = model.eval()(torch.tensor(tokens[None])).logits[0]
    return rounded({
        "config": config, "weights": shapes,
        "logits": [logits[at].tolist() for at in models.SCORED],
        "generated": [generate(model, tokens[:length], models.CONTINUED, least=30)[length:]
                      for length in models.PROMPTS]})


def serve_in_fp16(config):
    """The weights are rounded to fp16. Rotary frequencies stay in fp32, as in models
    that transformers load in fp16."""
    model, _ = build(config)
    tokens = torch.tensor(models.text(config["vocab_size"])[None])
    frequencies = [(module, module.inv_freq.float()) for module in model.modules()
                   if hasattr(module, "inv_freq")]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())
        exact = model.eval()(tokens).logits[0]
        model.half()
        for module, frequency in frequencies:
            module.inv_freq = frequency
        found = model(tokens).logits[0].double()
    scored = list(models.SCORED)
    return rounded({
        "logits": exact[scored].tolist(),
        "error": ((found - exact)[scored].norm() / exact[scored].norm()).item()})


def generate(model, prompt, count, least=None):
    """The tokens of the largest logits, one after the other: up to `count`, or with
    `least` so many or more, up to one that rounding would choose."""
    ids = [int(token) for token in prompt]
    for made in range(count):
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1]
        largest, second = logits.topk(2).values
        if largest - second <= 1e-4:
            assert least is not None and made >= least, "rounding would choose"
            break
        ids.append(logits.argmax().item())
    return ids


def rounded(value):
    """With 10 digits: more than float32 can be compared to."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return value


def differences(old, new, path=""):
    """The paths of numbers that differ by more than 1e-7 of the largest beside
    them, and of everything else that differs. Errors, single numbers, may differ by a
    third: they depend on the order in which PyTorch adds."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [found for key in old
                for found in differences(old[key], new[key], f"{path}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and all(
            isinstance(each, float) for each in old + new) and len(old) == len(new):
        largest = max(map(abs, old), default=0)
        return [path] if np.abs(np.subtract(old, new)).max() > 1e-7 * largest else []
    if isinstance(old, float) and isinstance(new, float):
        return [path] if abs(old - new) > old / 3 else []
    return [] if old == new else [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    made = {f"models/{name}": (train, config)
            for name, config in models.CONFIGS.items()}
    made |= {f"served/{name}": (serve, config)
             for name, config in models.SERVED.items()}
    made |= {f"fp16/{name}": (serve_in_fp16, models.SERVED[name])
             for name in models.SERVED_IN_FP16}
    parser.add_argument("names", nargs="*", default=list(made))
    arguments = parser.parse_args()
    wrong = []
    for name in arguments.names:
        make, config = made[name]
        record = make(config)
        path = os.path.join(FOLDER, name + ".json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if arguments.check:
            with open(path) as file:
                wrong += differences(json.load(file), record, name)
            continue
        with open(path, "w") as file:
            json.dump(record, file, indent=0)
            file.write("\n")
        print(name)
    for path in wrong:
        print("differs: " + path)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
