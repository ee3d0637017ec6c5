//===- FuzzReaders.cpp - Mutates files and reads them -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// usage: HeddleFuzzReaders SEED ITERATIONS [READER]
//
// Mutates small valid files at random and gives them to every reader of user
// files. A reader may succeed or throw a UserError whose code is in its class;
// anything else fails. Build it with sanitizers to find more.
//
//===----------------------------------------------------------------------===//

#include "heddle/AttentionLayout/AttentionLayout.h"
#include "heddle/Import/ModelSpec.h"
#include "heddle/runtime/io/ChatTemplate.h"
#include "heddle/runtime/io/Json.h"
#include "heddle/runtime/io/Safetensors.h"
#include "heddle/runtime/io/TokenFile.h"
#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/EmbeddingRequest.h"
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

using namespace heddle;
using namespace heddle::io;
namespace fs = std::filesystem;

namespace {

/// A kind of file: examples to begin with, and what reads it.
struct Target {
  const char *name;
  const char *fileName;
  std::vector<std::string> examples;
  std::function<void(const std::string &path)> read;
  int status = 3; ///< Of the errors that it may give.
};

class Mutator {
public:
  explicit Mutator(uint64_t seed) : random(seed) {}
  std::string mutate(std::string bytes);
  size_t below(size_t limit) { return limit ? random() % limit : 0; }

private:
  void mutateOnce(std::string &bytes);
  std::mt19937_64 random;
};

} // namespace

/// Pieces that readers treat in their own ways.
static const std::vector<std::string> dictionary = {"{",
                                                    "}",
                                                    "[",
                                                    "]",
                                                    ",",
                                                    ":",
                                                    "\"",
                                                    "\\",
                                                    "\\u0000",
                                                    "-1",
                                                    "0",
                                                    "1e400",
                                                    "9223372036854775807",
                                                    "18446744073709551616",
                                                    "null",
                                                    "true",
                                                    "NaN",
                                                    "\"dtype\"",
                                                    "\"shape\"",
                                                    "\"data_offsets\"",
                                                    "\"__metadata__\"",
                                                    "\"F32\"",
                                                    "\"F4\"",
                                                    "[0,4]",
                                                    std::string(8, '\0'),
                                                    std::string(4, '\xFF'),
                                                    "\xEF\xBB\xBF",
                                                    "MMIDIDX",
                                                    "{{",
                                                    "}}",
                                                    "{% for m in ",
                                                    "%}",
                                                    "range(99999999)",
                                                    "* 99999999"};

void Mutator::mutateOnce(std::string &bytes) {
  size_t at = below(bytes.size() + 1);
  switch (below(7)) {
  case 0:
    if (at < bytes.size())
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    break;
  case 1:
    if (at < bytes.size())
      bytes[at] = static_cast<char>(below(256));
    break;
  case 2:
    bytes.insert(at, dictionary[below(dictionary.size())]);
    break;
  case 3:
    bytes.erase(at, 1 + below(8));
    break;
  case 4:
    bytes.resize(at);
    break;
  case 5:
    bytes.insert(at, bytes.substr(below(bytes.size() + 1), below(64)));
    break;
  case 6: {
    std::string piece = dictionary[below(dictionary.size())];
    bytes.replace(at, std::min(piece.size(), bytes.size() - at), piece);
    break;
  }
  }
}

std::string Mutator::mutate(std::string bytes) {
  for (size_t count = 1 + below(4); count > 0; --count)
    mutateOnce(bytes);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

template <typename T> static std::string bytesOf(const T &value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

/// Reads the values at the ends of every tensor.
static void readTensors(const std::string &path) {
  WeightSet set = openSafetensors(path);
  volatile uint8_t sink = 0;
  for (const TensorInfo &info : set.tensors())
    if (info.bytes > 0)
      sink = sink ^ set.data(info)[0] ^ set.data(info)[info.bytes - 1];
}

static void readTokens(const std::string &path) {
  TokenFile file = TokenFile::open(path);
  std::vector<int32_t> tokens(std::min<int64_t>(file.size(), 4096));
  file.read(file.size() - static_cast<int64_t>(tokens.size()),
            static_cast<int64_t>(tokens.size()), 60000, tokens.data());
}

static std::string safetensorsExample() {
  std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\","
      "\"shape\":[2,1],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"BF16\","
      "\"shape\":[2],\"data_offsets\":[8,12]}}";
  return bytesOf(uint64_t(header.size())) + header + std::string(12, '\1');
}

static std::string layoutExample() {
  std::string header =
      "{\"__metadata__\":{\"block\":\"32\"},\"layout\":{\"dtype\":\"I32\","
      "\"shape\":[2,1,1],\"data_offsets\":[0,8]}}";
  return bytesOf(uint64_t(header.size())) + header + bytesOf(int32_t(1)) +
         bytesOf(int32_t(0));
}

static std::string llmcExample() {
  int32_t header[256] = {20240520, 1, 5};
  return bytesOf(header) + std::string(10, '\2');
}

static std::string megatronExample() {
  std::string index("MMIDIDX\0\0", 9);
  index += bytesOf(uint64_t(1)) + bytesOf(uint8_t(8)) + bytesOf(uint64_t(2)) +
           bytesOf(uint64_t(3));
  for (int32_t length : {2, 3})
    index += bytesOf(length);
  for (int64_t number : {4, 0, 0, 1, 2})
    index += bytesOf(number);
  return index;
}

static const char *const jsonExample =
    "{\"train_batch_size\": 4, \"optimizer\": {\"type\": \"AdamW\", \"params\":"
    " {\"lr\": 3e-4, \"betas\": [0.9, 0.95], \"x\": null, \"y\": \"a\\u00e9\"}"
    "},\n \"bf16\": {\"enabled\": true}}";

static const char *const dsConfigExample =
    "{\"train_batch_size\": 4, \"gradient_accumulation_steps\": 2,\n"
    "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\", "
    "\"betas\": [0.9, 0.95], \"adam_w_mode\": true}},\n"
    "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": "
    "{\"total_num_steps\": 9, \"warmup_type\": \"log\"}},\n"
    "\"bf16\": {\"enabled\": true}, \"gradient_clipping\": 1.0, "
    "\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8}}";

static const char *const sparseConfigExample =
    "{\"train_batch_size\": 4, \"sparse_attention\": {\"mode\": \"variable\", "
    "\"block\": 32,\n\"local_window_blocks\": [2, 4], \"num_random_blocks\": "
    "1, "
    "\"global_block_indices\": [0, 5],\n\"global_block_end_indices\": [1, 7], "
    "\"attention\": \"bidirectional\", \"horizontal_global_attention\": true}}";

static const char *const modelConfigExample =
    "{\"model_type\": \"gpt2\", \"vocab_size\": 97, \"n_positions\": 32,\n"
    "\"n_embd\": 16, \"n_layer\": 2, \"n_head\": 2, \"n_inner\": null,\n"
    "\"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.1, "
    "\"architectures\": [\"GPT2LMHeadModel\"], \"use_cache\": true}";

static void readModelConfig(const std::string &path) {
  config::ModelRequest request;
  request.path = path;
  request.random = true;
  config::readModelSpec(request);
}

static const char *const tokenizerExample =
    "{\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 5, \"content\": "
    "\"<e>\"}], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, "
    "\"ab\": 2, \"abab\": 3}, \"merges\": [\"a b\", [\"ab\", \"ab\"]]}}";

static const char *const wordPieceExample =
    R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
 "pre_tokenizer": {"type": "BertPreTokenizer"}, "added_tokens": [{"id": 1,
 "content": "<e>", "lstrip": true, "single_word": true, "special": true}],
 "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken":
 {"id": "<e>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<e>": {"ids":
 [1]}}}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 "model": {"type": "WordPiece", "unk_token": "?", "vocab": {"?": 0, "<e>": 1,
 "ab": 2, "##ab": 3}}})";

static const char *const unigramExample =
    R"({"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"},
 {"type": "Replace", "pattern": {"Regex": " {2,}|[^a[^b]&&\\W]$"}, "content": " "}]},
 "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split",
 "pattern": {"String": " "}, "behavior": "MergedWithNext", "invert": false},
 {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},
 {"type": "Digits", "individual_digits": true}]}, "added_tokens": [],
 "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type":
 "Fuse"}, {"type": "Strip", "content": "_", "start": 1, "stop": 1}]},
 "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab":
 [["?", 0], ["a", -1.5], ["b", -2], ["ab", -2.5], ["<0x3C>", -9]]}})";

static void readTokenizer(const std::string &path) {
  std::unique_ptr<Tokenizer> tokenizer = openTokenizer(path);
  tokenizer->decode(tokenizer->encodePrompt("ab  ab<e> \xC3\xA9\xFF 12b"));
}

static const char *const plainTemplate =
    R"({%- if messages[0]['role'] == 'system' -%}{{ bos }}{{ messages[0].content
 | trim }}{%- endif %}{% for m in messages if m.role != "x" %}{{ '<' + m.role ~
 '>' }}{% if not loop.last %}{{ m['content'] | upper }}{% else %}{{ m.content[1:]
 }}{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %})";

static const char *const richTemplate =
    R"({% macro say(m, end="\n") %}{{ m.content | default("") | tojson }}{{ end
 }}{% endmacro %}{% set ns = namespace(n=0, all=[]) %}{# counts #}{% for m in
 messages | selectattr("role", "equalto", "user") %}{% set ns.n = ns.n + 1 %}{{
 say(m) }}{% endfor %}{{ ns.n * 2 // 3 % 5 }}{{ range(3) | join("-") }}{{ 1 if
 ns.n > 9 else "a".split(",") | length }})";

static const char *const formatTemplate =
    R"({%- macro m(a) %}{{ caller(a) }}{{ varargs }}{{ kwargs }}{% endmacro -%}
 {% call(x) m(1, 2, k=3) %}{{ x }}{% endcall %}{% for x in [[1], 2] recursive %}{{
 loop(x) if x is not number else loop.changed(x) }}{% endfor %}{% with a = 1 %}{%
 filter upper %}{{ "%-5s|%05.1f" % ("a", 2) }}{% endfilter %}{% endwith %}{% raw %}
 {{ {% endraw %}{{ "{:>{w}}|{0!r}".format("a", w=5) }}{{ messages | groupby("role")
 | batch(2) | list }}{{ "a b".rsplit(" ", 1) }}{{ "x" | center(9) | truncate(4)
 }}{{ "abc".find("c", true) }})";

/// Renders a chat. Templates of others are programs: they must end, too.
static void renderTemplate(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string source(std::istreambuf_iterator<char>(file), {});
  static const auto chat = nlohmann::ordered_json::parse(
      R"({"messages": [{"role": "system", "content": " s "}, {"role": "user",
 "content": "a\u00e9"}], "bos": "<s>", "add_generation_prompt": true})");
  ChatTemplate(source, {path}).render(chat);
}

static const char *const completionExample =
    R"({"model": "m", "prompt": ["a", [1, 2]], "n": 2, "max_tokens": 5,
 "temperature": 0.5, "top_p": 0.25, "top_k": 7, "logprobs": 3, "stop": "x",
 "stream": true, "stream_options": {"include_usage": true}, "seed": 5})";

static const char *const embeddingExample =
    R"({"model": "m", "input": ["a", [1, 2]], "encoding_format": "base64",
 "dimensions": 30, "timeout": 1.5})";

static const char *const chatExample =
    R"({"messages": [{"role": "system", "content": "s"}, {"role": "user",
 "content": [{"type": "text", "text": "a\u00e9"}]}], "logprobs": true,
 "top_logprobs": 2, "response_format": {"type": "text"}, "tools": []})";

/// The body of a request to a server, which a refusal must name as its fault.
static void readRequest(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string body(std::istreambuf_iterator<char>(file), {});
  auto read = [](const std::function<void()> &read, bool isLast) {
    try {
      read();
    } catch (const rt::ApiError &error) {
      if (error.status != 400 || error.code != "H0380" ||
          nlohmann::json::parse(error.body()).size() != 1)
        throw;
      if (isLast)
        fail(error.code, error.message);
    }
  };
  read([&] { rt::EmbeddingRequest::read(body); }, false);
  for (bool isChat : {false, true})
    read([&] { rt::CompletionRequest::read(body, isChat, {}); }, isChat);
}

static std::vector<Target> makeTargets() {
  return {
      {"safetensors", "x.safetensors", {safetensorsExample()}, readTensors},
      {"layout",
       "layout.safetensors",
       {layoutExample()},
       [](const std::string &path) { layouts::readLayout(path); }},
      {"tokens",
       "x.bin",
       {llmcExample(), std::string("\1\0\2\0\3\0", 6)},
       readTokens},
      {"megatron", "m.idx", {megatronExample()}, readTokens},
      {"json",
       "x.json",
       {jsonExample},
       [](const std::string &path) { parseJsonFile(path, modelJsonCodes); }},
      {"tokenizer",
       "tokenizer.json",
       {tokenizerExample, wordPieceExample, unigramExample},
       readTokenizer},
      {"index",
       "model.safetensors.index.json",
       {"{\"weight_map\": {\"a\": \"good.safetensors\", \"b\": "
        "\"good.safetensors\"}}"},
       [](const std::string &path) { openWeights(path); }},
      {"ds_config",
       "ds_config.json",
       {dsConfigExample, sparseConfigExample},
       [](const std::string &path) { config::resolveSettings({}, path); },
       2},
      {"config", "config.json", {modelConfigExample}, readModelConfig},
      {"template",
       "chat_template.jinja",
       {plainTemplate, richTemplate, formatTemplate},
       renderTemplate},
      {"request",
       "body",
       {completionExample, chatExample, embeddingExample},
       readRequest},
  };
}

static void writeFile(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Runs one target; the number of inputs that were accepted, or -1.
static int64_t runTarget(const Target &target, const fs::path &directory,
                         uint64_t seed, int64_t iterations) {
  Mutator mutator(seed);
  std::string path = (directory / target.fileName).string();
  int64_t accepted = 0;
  for (int64_t i = 0; i < iterations; ++i) {
    std::string bytes =
        mutator.mutate(target.examples[mutator.below(target.examples.size())]);
    writeFile(path, bytes);
    std::string problem;
    try {
      target.read(path);
      ++accepted;
    } catch (const UserError &error) {
      if (error.diagnostic.exitCode() != target.status ||
          error.diagnostic.format().empty())
        problem = error.diagnostic.format();
    } catch (const std::exception &error) {
      problem = error.what();
    }
    if (!problem.empty()) {
      std::fprintf(stderr, "%s, seed %llu, iteration %lld: %s\nkept in %s\n",
                   target.name, static_cast<unsigned long long>(seed),
                   static_cast<long long>(i), problem.c_str(), path.c_str());
      return -1;
    }
  }
  return accepted;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SEED ITERATIONS [READER]\n", argv[0]);
    return 2;
  }
  uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  int64_t iterations = std::strtoll(argv[2], nullptr, 10);
  std::string name =
      (fs::temp_directory_path() / "heddle-fuzz-XXXXXX").string();
  if (!mkdtemp(name.data()))
    return 1;
  fs::path directory(name);
  writeFile(directory / "good.safetensors", safetensorsExample());
  writeFile(directory / "m.bin", std::string(10, '\3'));
  for (const Target &target : makeTargets()) {
    if (argc > 3 && target.name != std::string(argv[3]))
      continue;
    int64_t accepted = runTarget(target, directory, seed, iterations);
    if (accepted < 0)
      return 1;
    std::printf("%s: %lld inputs, %lld accepted\n", target.name,
                static_cast<long long>(iterations),
                static_cast<long long>(accepted));
  }
  fs::remove_all(directory);
  return 0;
}
