//===- Generate.cpp - The verbs generate and chat -------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements two verbs. `generate` continues one prompt. `chat` answers
// messages from stdin, and formats the conversation by the model's chat
// template.
//
//===----------------------------------------------------------------------===//

#include "ModelText.h"
#include "Prompt.h"
#include "TextGenerator.h"
#include "TextOutput.h"
#include "Warnings.h"
#include "heddle/runtime/app/Signals.h"
#include "heddle/runtime/app/Weights.h"
#include "heddle/runtime/io/ChatTemplate.h"
#include "heddle/runtime/io/Diagnostic.h"
#include "heddle/runtime/io/Process.h"
#include "heddle/runtime/io/Tokenizer.h"
#include "heddle/runtime/serve/Sampler.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <unistd.h>

using namespace heddle;
using namespace heddle::rt;

/// Returns `sampling`, except that parameters set by flags have the values of
/// the flags.
static SamplingOptions samplingOf(const GenerateOptions &options,
                                  SamplingOptions sampling) {
  sampling.seed = options.seed;
  bool draws =
      sampling.temperature > 0 || options.topK || options.topP || options.minP;
  if (sampling.temperature == 0 && draws)
    sampling.temperature = 1;
  sampling.temperature = options.temperature.value_or(sampling.temperature);
  sampling.topK = options.topK.value_or(sampling.topK);
  sampling.topP = options.topP.value_or(sampling.topP);
  sampling.minP = options.minP.value_or(sampling.minP);
  sampling.repetitionPenalty =
      options.repetitionPenalty.value_or(sampling.repetitionPenalty);
  return sampling;
}

/// Returns the number of generated tokens per second; 0 if no token was
/// generated.
static double perSecond(int64_t made, double seconds) {
  return made == 0 ? 0 : double(made) / seconds;
}

/// Prints one JSON object with the generated tokens, the time until the first
/// token, and the time of the rest. `text` is null without a tokenizer.
static void printJson(const std::string *text, const std::vector<int32_t> &ids,
                      size_t prompt, double first, double rest,
                      const SchedulerCounts *drafted) {
  nlohmann::ordered_json json;
  json["text"] = text ? nlohmann::ordered_json(*text) : nullptr;
  json["ids"] = std::vector<int32_t>(ids.begin() + prompt, ids.end());
  json["prompt_tokens"] = prompt;
  json["new_tokens"] = ids.size() - prompt;
  json["prefill_s"] = first;
  json["decode_s"] = rest;
  json["tokens_per_s"] = perSecond(ids.size() - prompt, first + rest);
  if (drafted)
    json["draft"] = {{"runs", drafted->runs},
                     {"guesses", drafted->guesses},
                     {"right", drafted->rightGuesses}};
  std::string line = json.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  printf("%s\n", line.c_str());
  io::flushStandardOutput();
}

namespace {

/// A model that generates text, and the tokens at which its output ends.
class TextModel {
public:
  /// A sampling parameter that no flag sets has a default. If `asksMakers` is
  /// true, it is the value in the model's generation_config.json, otherwise
  /// Heddle's own default.
  TextModel(const GenerateOptions &options, Ranks &ranks, bool asksMakers)
      : job(options.job, ranks), options(options), ranks(ranks),
        asksMakers(asksMakers) {}

  /// Calls `open` and `prepare`, and loads the weights after these have
  /// succeeded on all ranks. `open` returns the tokenizer, or null. If there is
  /// a tokenizer, its end-of-text token ends the output.
  void load(const std::function<const io::Tokenizer *()> &open,
            const std::function<void()> &prepare) {
    draft = job.openDraft(options.job);
    ranks.together([&] {
      TextDefaults defaults = textDefaults(job.plan(), options.job, open());
      ends = std::move(defaults.ends);
      generator =
          makeGenerator(job, draft.get(),
                        samplingOf(options, asksMakers ? defaults.sampling
                                                       : SamplingOptions()));
      prepare();
    });
    loadWeights(job, options.job);
    if (draft)
      loadWeights(*draft, options.job.ofDraft());
    catchStopSignals();
  }

  struct Outcome {
    int64_t made = 0;
    /// Seconds until the first token, and seconds for all later tokens.
    double first = 0, rest = 0;
    int64_t signal = 0;  ///< The signal that ended generation, or 0.
    bool isFull = false; ///< The context was full.
  };
  /// Throws H0132 when a prompt leaves no room for a token.
  void checkLength(const std::vector<int32_t> &prompt) const;
  /// Whether the context has room for an answer of typical length after the
  /// prompt.
  bool hasRoom(const std::vector<int32_t> &prompt) const {
    std::optional<int64_t> most = generator->maxTokens();
    return !most ||
           int64_t(prompt.size()) + std::min(options.maxNewTokens, *most / 4) <=
               *most;
  }
  /// Appends tokens until the sequence ends.
  Outcome extend(std::vector<int32_t> &tokens, TextOutput &output);
  /// See TextGenerator.
  const SchedulerCounts *drafted() const { return generator->drafted(); }

  Job job;

private:
  const GenerateOptions &options;
  Ranks &ranks;
  const bool asksMakers;
  std::unique_ptr<Job> draft;
  std::unique_ptr<TextGenerator> generator;
  std::vector<int64_t> ends;
};

} // namespace

void TextModel::checkLength(const std::vector<int32_t> &prompt) const {
  if (std::optional<int64_t> most = generator->maxTokens())
    checkRoom(prompt, *most);
}

TextModel::Outcome TextModel::extend(std::vector<int32_t> &tokens,
                                     TextOutput &output) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  Clock::time_point begin = Clock::now(), first = begin;
  Outcome outcome;
  bool isStopped = false;
  std::optional<int64_t> most = generator->maxTokens();
  while (outcome.made < options.maxNewTokens && !isStopped &&
         (!most || int64_t(tokens.size()) < *most)) {
    outcome.signal = ranks.maximum(stopSignal());
    if (outcome.signal != 0)
      break;
    int32_t token = generator->next(tokens);
    if (std::find(ends.begin(), ends.end(), token) != ends.end())
      break;
    tokens.push_back(token);
    isStopped = output.add(token);
    if (outcome.made++ == 0)
      first = Clock::now();
  }
  outcome.isFull = !isStopped && most && int64_t(tokens.size()) >= *most &&
                   outcome.made < options.maxNewTokens;
  output.finish();
  outcome.first = Seconds(first - begin).count();
  outcome.rest = Seconds(Clock::now() - first).count();
  return outcome;
}

static void warnOfFullContext(int64_t made, int64_t asked, int64_t room) {
  Diagnostic full;
  full.code = "H0465";
  full.message = "the text ends after " + std::to_string(made) + " of " +
                 std::to_string(asked) +
                 " tokens: it and the prompt can have " + std::to_string(room) +
                 " together";
  full.help = "give a shorter prompt, or compile with a larger --max-context "
              "if the model has as many positions";
  warn(full);
}

/// Returns the tokenizer for output that can do without text, such as JSON with
/// token ids. So if the tokenizer cannot be read, only warns and returns null.
static std::unique_ptr<io::Tokenizer>
tokenizerForText(const Job &job, const JobOptions &options) {
  try {
    return findTokenizer(job.plan(), options);
  } catch (const UserError &error) {
    if (job.isFirst())
      warn(error.diagnostic);
    return nullptr;
  }
}

int heddle::rt::runGenerate(const GenerateOptions &options, Ranks &ranks) {
  TextModel model(options, ranks, /*asksMakers=*/false);
  const plan::Plan &plan = model.job.plan();
  std::unique_ptr<io::Tokenizer> tokenizer;
  std::vector<int32_t> tokens;
  auto open = [&]() -> const io::Tokenizer * {
    if (options.promptIds.empty() || !options.stops.empty())
      tokenizer =
          requireTokenizer(plan, options.job,
                           options.stops.empty()
                               ? "give the prompt as tokens: --prompt-ids 1,2,3"
                               : "give the prompt as tokens, --prompt-ids "
                                 "1,2,3, without --stop");
    else if (options.json)
      tokenizer = tokenizerForText(model.job, options.job);
    // A prompt of token ids is continued as given: return no tokenizer, so that
    // its end-of-text token does not end the output.
    return options.promptIds.empty() ? tokenizer.get() : nullptr;
  };
  model.load(open, [&] {
    tokens = options.promptIds.empty() ? tokenizer->encodePrompt(options.prompt)
                                       : parseIds(options.promptIds);
    checkPrompt(tokens, plan.vocabSize,
                "give a text with --prompt or tokens with --prompt-ids");
    model.checkLength(tokens);
  });
  TextSinks sinks;
  sinks.prints = model.job.isFirst() && !options.json;
  // Print token ids instead of text if a flag asks for it or the prompt is
  // given as ids. JSON output has both anyway.
  sinks.asIds = !options.json && (options.ids || !options.promptIds.empty());
  sinks.stops = options.stops;
  TextOutput output(sinks, tokenizer.get());
  output.prompt(tokens);
  const size_t prompt = tokens.size();
  TextModel::Outcome outcome = model.extend(tokens, output);
  if (model.job.isFirst()) {
    double time = outcome.first + outcome.rest;
    if (options.json)
      printJson(tokenizer ? &output.text() : nullptr, tokens, prompt,
                outcome.first, outcome.rest, model.drafted());
    fprintf(stderr, "%lld tokens in %.2f s, %.1f tokens/s\n",
            static_cast<long long>(outcome.made), time,
            perSecond(outcome.made, time));
    if (outcome.isFull)
      warnOfFullContext(outcome.made, options.maxNewTokens, tokens.size());
    if (const SchedulerCounts *drafted = model.drafted())
      fprintf(stderr, "%lld of %lld guesses of the draft were right\n",
              static_cast<long long>(drafted->rightGuesses),
              static_cast<long long>(drafted->guesses));
  }
  return outcome.signal == 0 ? 0 : int(128 + outcome.signal);
}

/// Returns the next line of the user, which rank 0 reads; nothing at the end.
static std::optional<std::string> readLine(Ranks &ranks) {
  std::string line, sent;
  if (ranks.rank() == 0) {
    if (isatty(STDIN_FILENO)) {
      fputs("> ", stdout);
      io::flushStandardOutput();
    }
    if (std::getline(std::cin, line))
      sent = "+" + line;
  }
  line = ranks.tell(sent);
  return line.empty() ? std::nullopt
                      : std::optional<std::string>(line.substr(1));
}

namespace {

/// The messages of a chat so far, and their tokens by the model's chat
/// template.
class Conversation {
public:
  Conversation(const io::ChatTemplate &chat, const io::Tokenizer &tokenizer,
               const std::string &system)
      : chat(chat), tokenizer(tokenizer) {
    if (!system.empty())
      say("system", system);
    first = messages.size();
  }

  void say(const char *role, const std::string &content) {
    messages.push_back({{"role", role}, {"content", content}});
  }
  std::vector<int32_t> tokens() const {
    return chat.encodeChat(messages, tokenizer);
  }
  /// Drops the oldest question and its answer to free room in the context.
  /// Returns false if they are the only ones.
  bool forget() {
    if (messages.size() < first + 3)
      return false;
    messages.erase(first);
    messages.erase(first);
    return true;
  }

private:
  const io::ChatTemplate &chat;
  const io::Tokenizer &tokenizer;
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  size_t first = 0; ///< Index of the first message after the system's.
};

} // namespace

int heddle::rt::runChat(const GenerateOptions &options, Ranks &ranks) {
  TextModel model(options, ranks, /*asksMakers=*/true);
  const plan::Plan &plan = model.job.plan();
  std::unique_ptr<io::Tokenizer> tokenizer;
  std::optional<io::ChatTemplate> chat;
  auto open = [&] {
    tokenizer = requireTokenizer(
        plan, options.job,
        "put the model's tokenizer.json beside its weights; without one there "
        "is the verb generate with --prompt-ids 1,2,3");
    std::string directory = modelDirectory(plan, options.job);
    chat = io::ChatTemplate::find(directory);
    if (!chat)
      fail("H0359",
           (directory.empty() ? "a model with random weights" : directory) +
               " has no chat template",
           "put a chat_template.jinja beside the weights, or use generate");
    return tokenizer.get();
  };
  model.load(open, [] {});
  TextSinks sinks;
  sinks.prints = model.job.isFirst();
  sinks.stops = options.stops;
  Conversation conversation(*chat, *tokenizer, options.system);
  while (std::optional<std::string> line = readLine(ranks)) {
    if (line->empty())
      continue;
    conversation.say("user", *line);
    std::vector<int32_t> tokens;
    ranks.together([&] {
      int64_t forgotten = 0;
      while (tokens = conversation.tokens(),
             !model.hasRoom(tokens) && conversation.forget())
        ++forgotten;
      if (forgotten > 0 && model.job.isFirst())
        fprintf(stderr,
                "the conversation is longer than the context: its first "
                "question and answer are left out%s\n",
                forgotten > 1 ? ", and those after it" : "");
      checkPrompt(tokens, plan.vocabSize,
                  "change the chat template beside the weights: it writes "
                  "nothing of these messages");
      model.checkLength(tokens);
    });
    TextOutput output(sinks, tokenizer.get());
    output.prompt({});
    TextModel::Outcome outcome = model.extend(tokens, output);
    if (outcome.signal != 0)
      return int(128 + outcome.signal);
    conversation.say("assistant", output.text());
  }
  return 0;
}
