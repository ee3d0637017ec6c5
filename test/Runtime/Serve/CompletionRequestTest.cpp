//===- CompletionRequestTest.cpp - Tests of reading requests --------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/serve/CompletionRequest.h"
#include "heddle/runtime/serve/StopFilter.h"

#include <gtest/gtest.h>

using namespace heddle::rt;
using Json = nlohmann::ordered_json;

static CompletionRequest read(const std::string &body, bool isChat = false) {
  SamplingOptions sampling;
  sampling.temperature = 1;
  return CompletionRequest::read(body, isChat, sampling);
}

/// What the refusal of a body says, after the field that it names.
static std::string refusal(const std::string &body, bool isChat = false) {
  try {
    read(body, isChat);
  } catch (const ApiError &error) {
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.code, "H0380");
    Json json = Json::parse(error.body());
    EXPECT_EQ(json["error"]["type"], "invalid_request_error");
    EXPECT_EQ(json["error"]["message"], error.message);
    return error.field + ": " + error.message;
  }
  return "taken";
}

TEST(CompletionRequest, HasOpenAisDefaults) {
  CompletionRequest request = read(R"({"prompt": "a", "unknown": [1]})");
  EXPECT_EQ(std::get<std::string>(request.prompts.at(0)), "a");
  EXPECT_EQ(request.count, 1);
  EXPECT_EQ(request.maxTokens, std::nullopt);
  EXPECT_EQ(request.sampling.temperature, 1);
  EXPECT_EQ(request.sampling.topP, 1);
  EXPECT_EQ(request.sampling.topK, 0);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_FALSE(request.streams);
  EXPECT_FALSE(request.seed);
}

TEST(CompletionRequest, SamplesAsTheModelsMakersDoWhereItDoesNotSay) {
  SamplingOptions sampling;
  sampling.temperature = 0.5;
  sampling.topK = 7;
  sampling.topP = 0.75;
  sampling.minP = 0.125;
  sampling.repetitionPenalty = 1.5;
  CompletionRequest none =
      CompletionRequest::read(R"({"prompt": "a"})", false, sampling);
  EXPECT_EQ(none.sampling.temperature, 0.5);
  EXPECT_EQ(none.sampling.topK, 7);
  EXPECT_EQ(none.sampling.topP, 0.75);
  EXPECT_EQ(none.sampling.minP, 0.125);
  EXPECT_EQ(none.sampling.repetitionPenalty, 1.5);
  CompletionRequest all = CompletionRequest::read(
      R"({"prompt": "a", "temperature": 0, "top_k": -1, "top_p": 1,
          "min_p": 0, "repetition_penalty": 1})",
      false, sampling);
  EXPECT_EQ(all.sampling.temperature, 0);
  EXPECT_EQ(all.sampling.topK, 0);
  EXPECT_EQ(all.sampling.topP, 1);
  EXPECT_EQ(all.sampling.minP, 0);
  EXPECT_EQ(all.sampling.repetitionPenalty, 1);
}

TEST(CompletionRequest, ReadsEveryField) {
  CompletionRequest request = read(R"({
    "model": "m", "prompt": ["a", [1, 2]], "n": 2, "max_tokens": 5,
    "temperature": 0.5, "top_p": 0.25, "top_k": -1, "min_p": 0.125, "seed": -1,
    "repetition_penalty": 2, "logprobs": 3, "stop": ["x", "yz"],
    "stream": true, "stream_options": {"include_usage": true}, "user": "u",
    "return_token_ids": true, "ignore_eos": true, "timeout": 1.5, "echo": false,
    "presence_penalty": 0.5, "frequency_penalty": -2, "suffix": null,
    "logit_bias": {"7": -100, "12": 0.5}, "tools": [], "tool_choice": "auto"})");
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(request.prompts[1]),
            (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(request.count, 2);
  EXPECT_EQ(request.maxTokens, 5);
  EXPECT_EQ(request.sampling.temperature, 0.5);
  EXPECT_EQ(request.sampling.topP, 0.25);
  EXPECT_EQ(request.sampling.topK, 0);
  EXPECT_EQ(request.sampling.minP, 0.125);
  EXPECT_EQ(request.sampling.repetitionPenalty, 2);
  EXPECT_EQ(request.sampling.presencePenalty, 0.5);
  EXPECT_EQ(request.sampling.frequencyPenalty, -2);
  EXPECT_EQ(request.sampling.bias,
            (std::vector<std::pair<int32_t, double>>{{7, -100}, {12, 0.5}}));
  EXPECT_EQ(request.seed, uint64_t(-1));
  EXPECT_EQ(request.logprobs, 3);
  EXPECT_EQ(request.stops, (std::vector<std::string>{"x", "yz"}));
  EXPECT_TRUE(request.streams && request.includesUsage &&
              request.returnsTokenIds && request.ignoresEnd);
  EXPECT_EQ(request.user, "u");
  EXPECT_EQ(request.timeout, 1.5);
}

TEST(CompletionRequest, ReadsMessages) {
  CompletionRequest request = read(R"({"max_completion_tokens": 7,
    "logprobs": true, "top_logprobs": 2, "messages": [
    {"role": "system", "content": "s"},
    {"role": "user", "name": "n", "content": [{"type": "text", "text": "a"},
                                              {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null}]})",
                                   /*isChat=*/true);
  EXPECT_EQ(request.maxTokens, 7);
  EXPECT_EQ(request.logprobs, 2);
  EXPECT_EQ(request.messages,
            Json::parse(R"([{"role": "system", "content": "s"},
                            {"role": "user", "content": "ab", "name": "n"},
                            {"role": "assistant", "content": null}])"));
}

TEST(CompletionRequest, NamesTheFieldThatIsWrong) {
  EXPECT_EQ(refusal("[]"), ": the body must be an object, not an array");
  EXPECT_EQ(refusal("{}"),
            "prompt: prompt is missing: give a text or an array of tokens");
  EXPECT_EQ(refusal(R"({"prompt": 5})"),
            "prompt: prompt must be a text or an array of tokens, or an array "
            "of these, not the number 5");
  EXPECT_EQ(refusal(R"({"prompt": [5, -1]})"), "prompt: prompt[1] is no token");
  EXPECT_EQ(refusal(R"({"prompt": "a", "temperature": "hot"})"),
            "temperature: temperature must be a number, not the string "
            "\"hot\"");
  EXPECT_EQ(refusal(R"({"prompt": "a", "top_p": 1.5})"),
            "top_p: top_p must be a number from 0 to 1");
  EXPECT_EQ(refusal(R"({"prompt": "a", "logit_bias": {"the": 1}})"),
            "logit_bias: logit_bias: \"the\" is no token");
  EXPECT_EQ(refusal(R"({"prompt": "a", "logit_bias": {"3": 101}})"),
            "logit_bias: logit_bias.3 must be a number from -100 to 100");
  EXPECT_EQ(refusal(R"({"prompt": "a", "tool_choice": "required"})"),
            "tool_choice: tool_choice may be \"none\" or \"auto\": tools are "
            "not supported");
  EXPECT_EQ(refusal(R"({"prompt": "a", "n": 1.5})"),
            "n: n must be a whole number from 1 to 64");
  EXPECT_EQ(refusal(R"({"prompt": "a", "max_tokens": 0})"),
            "max_tokens: max_tokens must be a whole number from 1");
  EXPECT_EQ(refusal(R"({"prompt": "a", "top_k": 0.5})"),
            "top_k: top_k must be a whole number from -1");
  EXPECT_EQ(refusal(R"({"prompt": "a", "seed": 18446744073709551616})"),
            "seed: seed must be a whole number from -9223372036854775808 to "
            "9223372036854775807");
  EXPECT_EQ(refusal(R"({"prompt": "a", "timeout": -1})"),
            "timeout: timeout must be a number from 0");
  EXPECT_EQ(refusal(R"({"prompt": []})"),
            "prompt: prompt must be a text or an array of tokens, or an array "
            "of these, not an empty array");
  EXPECT_EQ(refusal(R"({"messages": []})", true),
            "messages: messages must be an array of messages, not an empty "
            "array");
  EXPECT_EQ(refusal(R"({"prompt": "a", "stream": []})"),
            "stream: stream must be true or false, not an empty array");
  EXPECT_EQ(refusal(R"({"prompt": "a", "stream": 1})"),
            "stream: stream must be true or false, not the number 1");
  EXPECT_EQ(refusal(R"({"prompt": "a", "stop": ["x", ""]})"),
            "stop: stop must have at most 16 texts, none of them empty");
  EXPECT_EQ(refusal(R"({"prompt": "a", "tools": [{}]})"),
            "tools: tools is not supported");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user"}]})", true),
            "messages: messages[0] has no content");
  EXPECT_EQ(refusal(R"({"messages": [{"role": "user", "content": [
                        {"type": "image_url"}]}]})",
                    true),
            "messages: messages[0].content[0] must be {\"type\": \"text\", "
            "\"text\": ...}: other parts are not supported");
}

TEST(CompletionRequest, SaysWhereJsonIsBroken) {
  std::string said = refusal("{\"prompt\":\n  nil}");
  EXPECT_NE(said.find("(line 2, column 3 of the body)"), std::string::npos)
      << said;
  EXPECT_NE(refusal(R"({"prompt": "a", "prompt": "b"})"), "taken");
  EXPECT_NE(refusal(std::string(100000, '[')), "taken");
}

TEST(StopFilter, HoldsBackWhatMayBecomeAStop) {
  StopFilter filter({"</s>", "\n\n"});
  EXPECT_EQ(filter.add("a<"), "a");
  EXPECT_EQ(filter.add("/"), "");
  EXPECT_EQ(filter.add("b\n"), "</b");
  EXPECT_FALSE(filter.hasStopped());
  EXPECT_EQ(filter.add("c</s"), "\nc");
  EXPECT_EQ(filter.add("> more"), "");
  EXPECT_TRUE(filter.hasStopped());
  EXPECT_EQ(filter.add("more") + filter.finish(), "");
  StopFilter other({"abc"});
  EXPECT_EQ(other.add("xab") + "|" + other.finish(), "x|ab");
  // One part completes both: the text ends before the first of them.
  for (const std::vector<std::string> &stops :
       {std::vector<std::string>{"e", "the"}, {"the", "e"}}) {
    StopFilter both(stops);
    EXPECT_EQ(both.add("T") + both.add("the"), "T");
  }
  StopFilter none({});
  EXPECT_EQ(none.add("x"), "x");
}
