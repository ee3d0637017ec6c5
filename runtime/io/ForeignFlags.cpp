//===- ForeignFlags.cpp - Flags of other tools ----------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ForeignFlags.h"

#include <algorithm>
#include <map>

using namespace heddle;

namespace {

/// A flag of another tool (`theirs`) and Heddle's flag for it (`ours`). If the
/// verbs of Heddle (compile, train, serve, ...) have different flags for the
/// same purpose, `ours` lists these flags, separated by "|". The error message
/// shows the flag of `ours` and then the user's value, with a blank in between
/// unless `ours` ends in "=". If `ours` includes a value, the message does not
/// show the user's value.
struct ForeignFlag {
  const char *theirs;
  const char *ours;
};

/// The names of other tools' flags are written without leading dashes, and with
/// "-" instead of "_".
constexpr ForeignFlag foreignFlags[] = {
    // Steps and data:
    {"max-steps", "--steps"},
    {"num-steps", "--steps"},
    {"total-steps", "--steps"},
    {"train-iters", "--steps"},
    {"max-iters", "--steps"},
    {"iters", "--steps"},
    {"train-file", "--data"},
    {"train-data", "--data"},
    {"training-data", "--data"},
    {"data-path", "--data"},
    {"data-file", "--data"},
    {"dataset", "--data"},
    {"dataset-name", "--data"},
    {"dataset-path", "--data"},
    {"input", "--data|--text|--prompt|--inputs"},
    {"validation-file", "--val"},
    {"valid-data-path", "--val"},
    {"val-data", "--val"},
    {"eval-data", "--val|--data"},
    {"eval-file", "--val|--data"},
    {"test-file", "--data"},
    {"eval-steps", "--val-every"},
    {"eval-interval", "--val-every"},
    {"eval-every", "--val-every"},
    {"eval-iters", "--val-steps"},
    {"early-stopping-patience", "--stop-when-no-better"},
    // Checkpoints and logs:
    {"output-dir", "--save|--output"},
    {"out-dir", "--save|--output"},
    {"save-dir", "--save|--output"},
    {"checkpoint-dir", "--save"},
    {"save-path", "--save|--output"},
    {"save-steps", "--save-every"},
    {"save-interval", "--save-every"},
    {"save-total-limit", "--keep-last"},
    {"overwrite-output-dir", "--overwrite"},
    {"resume-from-checkpoint", "--resume"},
    {"resume-from", "--resume"},
    {"load", "--resume|--weights"},
    {"load-checkpoint", "--resume|--weights"},
    {"checkpoint", "--resume|--weights"},
    {"logging-dir", "--log-tensorboard"},
    {"log-dir", "--log-tensorboard"},
    {"tensorboard-dir", "--log-tensorboard"},
    {"log-file", "--log|--access-log"},
    {"disable-tqdm", "--progress none"},
    {"quiet", "--progress none"},
    {"random-seed", "--seed"},
    // The optimizer:
    {"learning-rate", "--lr"},
    {"learningrate", "--lr"},
    {"wd", "--weight-decay"},
    {"decay", "--weight-decay"},
    {"max-grad-norm", "--clip"},
    {"clip-grad", "--clip"},
    {"grad-clip", "--clip"},
    {"gradient-clipping", "--clip"},
    {"clip-grad-norm", "--clip"},
    {"warmup", "--warmup-steps"},
    {"warmup-iters", "--warmup-steps"},
    {"lr-warmup-iters", "--warmup-steps"},
    {"lr-warmup-steps", "--warmup-steps"},
    {"num-warmup-steps", "--warmup-steps"},
    {"lr-decay-iters", "--train-steps"},
    {"num-training-steps", "--train-steps"},
    {"optim", "--optimizer"},
    {"adam-epsilon", "--eps"},
    {"adam-eps", "--eps"},
    {"label-smoothing-factor", "--label-smoothing"},
    // Batches and precision:
    {"batch-size", "--batch"},
    {"bs", "--batch"},
    {"train-batch-size", "--batch"},
    {"per-device-train-batch-size", "--micro-batch"},
    {"train-micro-batch-size-per-gpu", "--micro-batch"},
    {"gradient-accumulation-steps", "--accumulate"},
    {"grad-accum", "--accumulate"},
    {"accumulation-steps", "--accumulate"},
    {"max-seq-length", "--seq"},
    {"max-seq-len", "--seq"},
    {"max-sequence-length", "--seq"},
    {"seq-len", "--seq"},
    {"sequence-length", "--seq"},
    {"block-size", "--seq"},
    {"cutoff-len", "--seq"},
    {"bf16", "--precision bf16"},
    {"fp16", "--precision fp16"},
    {"fp32", "--precision fp32"},
    {"half", "--precision fp16"},
    {"mixed-precision", "--precision"},
    {"torch-dtype", "--precision"},
    {"dtype", "--precision"},
    {"tf32", "--matmul tf32"},
    {"gradient-checkpointing", "--recompute full"},
    {"activation-checkpointing", "--recompute full"},
    {"recompute-activations", "--recompute selective"},
    // Parallelism:
    {"deepspeed", "--config"},
    {"deepspeed-config", "--config"},
    {"ds-config", "--config"},
    {"zero-stage", "--zero"},
    {"stage", "--zero"},
    {"fsdp", "--zero 3"},
    {"tensor-parallel-size", "--mesh tensor="},
    {"tensor-parallel", "--mesh tensor="},
    {"tp", "--mesh tensor="},
    {"tp-size", "--mesh tensor="},
    {"pipeline-parallel-size", "--mesh pipe="},
    {"pipeline-parallel", "--mesh pipe="},
    {"pp", "--mesh pipe="},
    {"pp-size", "--mesh pipe="},
    {"data-parallel-size", "--mesh data="},
    {"dp", "--mesh data="},
    {"dp-size", "--mesh data="},
    {"expert-model-parallel-size", "--mesh expert="},
    {"cpu-offload", "--place optimizer=host"},
    {"offload-dir", "--swap-dir"},
    {"nvme-path", "--swap-dir"},
    // Models and serving:
    {"model", "--weights"},
    {"model-path", "--weights"},
    {"model-name-or-path", "--weights"},
    {"model-dir", "--weights"},
    {"pretrained-model-name-or-path", "--weights"},
    {"ckpt", "--weights"},
    {"max-model-len", "--max-context"},
    {"ctx-size", "--max-context"},
    {"context-length", "--max-context"},
    {"num-ctx", "--max-context"},
    {"max-num-seqs", "--max-batch"},
    {"max-batch-size", "--max-batch|--batch"},
    {"max-running-requests", "--max-batch"},
    {"gpu-memory-utilization", "--kv-cache auto"},
    {"mem-fraction-static", "--kv-cache auto"},
    {"kv-cache-dtype", "--kv-type"},
    {"kv-cache-memory-bytes", "--kv-cache"},
    {"quantization", "--quantize"},
    {"load-in-8bit", "--quantize int8"},
    {"load-in-4bit", "--quantize int4"},
    {"speculative-model", "--draft"},
    {"draft-model", "--draft"},
    {"model-draft", "--draft"},
    {"num-speculative-tokens", "--draft-tokens"},
    {"enforce-eager", "--no-graph"},
    {"allowed-origins", "--allow-origin"},
    {"cors", "--allow-origin"},
    {"alias", "--served-model-name"},
    {"model-name", "--served-model-name|--weights"},
    {"listen", "--host"},
    {"bind", "--host"},
    {"timeout", "--request-timeout|--join-timeout"},
    {"max-concurrent-requests", "--max-texts"},
    {"enable-log-requests", "--access-log"},
    {"log-requests", "--access-log"},
    // Text:
    {"text", "--prompt"},
    {"max-tokens", "--max-new-tokens"},
    {"max-length", "--max-new-tokens|--seq"},
    {"max-new-token", "--max-new-tokens"},
    {"n-predict", "--max-new-tokens"},
    {"num-predict", "--max-new-tokens"},
    {"num-tokens", "--max-new-tokens|--tokens"},
    {"length", "--max-new-tokens"},
    {"temp", "--temperature"},
    {"topk", "--top-k"},
    {"topp", "--top-p"},
    {"repeat-penalty", "--repetition-penalty"},
    {"stop-strings", "--stop"},
    {"system-prompt", "--system"},
    {"input-ids", "--prompt-ids|--ids|--inputs"},
    {"p", "--prompt"},
    {"n", "--max-new-tokens"},
    {"m", "--weights"},
    {"c", "--max-context"},
    {"t", "--threads"},
    // Machines:
    {"num-threads", "--threads"},
    {"nthreads", "--threads"},
    {"n-threads", "--threads"},
    {"output-file", "--output|--log"},
    {"out", "--output"},
    {"host-file", "--hostfile"},
    {"machinefile", "--hostfile"},
};

constexpr ForeignFlag advices[] = {
    {"num-train-epochs",
     "steps are counted, not epochs: an epoch is (tokens - 1) / (batch x seq) "
     "steps, so give --steps N"},
    {"warmup-ratio", "give the steps: --warmup-steps N"},
    {"adam-beta1", "give both: --betas 0.9,0.999"},
    {"adam-beta2", "give both: --betas 0.9,0.999"},
    {"beta1", "give both: --betas 0.9,0.999"},
    {"beta2", "give both: --betas 0.9,0.999"},
    {"lr-scheduler-type",
     "give heddle compile --warmup-steps N --train-steps N for a rate that "
     "rises and falls, or a scheduler in ds_config.json (--config)"},
    {"do-train", "leave it out: train is a verb, as in BINARY train"},
    {"do-eval", "leave it out, and give --val FILE, or use the verb eval"},
    {"logging-steps",
     "leave it out: every step is logged, with --log FILE as JSON lines"},
    {"report-to", "name the files: --log FILE (JSON lines), --log-csv FILE, or "
                  "--log-tensorboard DIR"},
    {"num-gpus",
     "leave it out: start the ranks with heddle run or mpirun -n N"},
    {"gpus", "leave it out: start the ranks with heddle run or mpirun -n N"},
    {"nproc-per-node",
     "leave it out: start the ranks with heddle run or mpirun -n N"},
    {"num-nodes",
     "leave it out: heddle run --hostfile FILE starts ranks on several hosts"},
    {"dataloader-num-workers",
     "leave it out: token files are read while the step before is computed"},
    {"trust-remote-code", "leave it out: no code of a model is ever run"},
    {"chat-template",
     "leave it out: the template is in tokenizer_config.json or "
     "chat_template.jinja beside the weights"},
    {"tokenizer", "leave it out: the tokenizer is the one beside the weights"},
    {"do-sample", "leave it out: --temperature, --top-k or --top-p sample"},
    {"num-beams", "leave it out: there is no beam search"},
    {"n-gpu-layers",
     "leave it out: heddle compile --target sm_90 makes code for a GPU"},
    {"ngl", "leave it out: heddle compile --target sm_90 makes code for a GPU"},
    {"enable-prefix-caching",
     "leave it out: texts that begin alike share pages"},
    {"enable-chunked-prefill", "leave it out: prompts are computed in chunks"},
    {"disable-log-requests", "leave it out: no request is logged without "
                             "--access-log"},
    {"disable-log-stats", "leave it out: figures are at /metrics alone"},
    {"packing", "leave it out: rows are cut from one stream of tokens"},
};

/// Returns the name of a flag in the spelling of the tables in this file: lower
/// case, without leading dashes, and with "-" instead of "_".
std::string normalized(const std::string &flag) {
  std::string name =
      flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
  std::replace(name.begin(), name.end(), '_', '-');
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(tolower(c)); });
  return name;
}

/// Returns the value to write after Heddle's flag `ours`. For --precision, this
/// is Heddle's name of the type that another tool calls `value`; for any other
/// flag, it is `value`.
std::string valueFor(const std::string &ours, const std::string &value) {
  static const std::map<std::string, std::string> types = {
      {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"},
      {"float32", "fp32"},  {"float", "fp32"},   {"no", "fp32"}};
  auto found = types.find(value);
  return ours == "--precision" && found != types.end() ? found->second : value;
}

} // namespace

std::vector<std::string> io::namesFor(const std::string &flag,
                                      const std::string &value) {
  std::vector<std::string> found;
  const std::string name = normalized(flag);
  for (const auto &[theirs, ours] : foreignFlags) {
    if (name != theirs)
      continue;
    std::string rest = ours;
    while (!rest.empty()) {
      std::string one = rest.substr(0, rest.find('|'));
      rest.erase(0, one.size() + 1);
      bool hasValue = one.find(' ') != std::string::npos && one.back() != '=';
      if (!hasValue && !value.empty())
        one += (one.back() == '=' ? "" : " ") + valueFor(one, value);
      found.push_back(one);
    }
  }
  return found;
}

std::string io::adviceFor(const std::string &flag) {
  static const std::map<std::string, std::string> alike = {
      {"epochs", "num-train-epochs"},
      {"num-epochs", "num-train-epochs"},
      {"max-epochs", "num-train-epochs"},
      {"lr-scheduler", "lr-scheduler-type"},
      {"scheduler", "lr-scheduler-type"},
      {"lr-decay-style", "lr-scheduler-type"},
      {"log-interval", "logging-steps"},
      {"log-every", "logging-steps"},
      {"num-workers", "dataloader-num-workers"},
      {"num-proc", "nproc-per-node"},
      {"nnodes", "num-nodes"}};
  std::string name = normalized(flag);
  if (auto found = alike.find(name); found != alike.end())
    name = found->second;
  for (const auto &[theirs, advice] : advices)
    if (name == theirs)
      return advice;
  return "";
}
