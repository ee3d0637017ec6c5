//===- Exchange.cpp - Exchange texts between ranks ------------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges text messages between all ranks, and gathers memory of other ranks
// on rank 0, over any Transport.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/comm/Tags.h"
#include "heddle/runtime/comm/Transport.h"

using namespace heddle::rt;

static void sendText(Transport &transport, int peer, const std::string &text) {
  int64_t size = static_cast<int64_t>(text.size());
  Request first = transport.isend(peer, controlTag, &size, sizeof size);
  transport.wait(first);
  Request second = transport.isend(peer, controlTag + 1, text.data(), size);
  transport.wait(second);
}

static std::string receiveText(Transport &transport, int peer) {
  int64_t size = 0;
  Request first = transport.irecv(peer, controlTag, &size, sizeof size);
  transport.wait(first);
  std::string text(size, '\0');
  Request second = transport.irecv(peer, controlTag + 1, text.data(), size);
  transport.wait(second);
  return text;
}

/// Gathers every rank's text on rank 0; the other ranks return nothing.
static std::vector<std::string> gatherTexts(Transport &transport,
                                            const std::string &text) {
  if (transport.rank() != 0) {
    sendText(transport, 0, text);
    return {};
  }
  std::vector<std::string> texts(transport.size());
  texts[0] = text;
  for (int peer = 1; peer < transport.size(); ++peer)
    texts[peer] = receiveText(transport, peer);
  return texts;
}

std::string heddle::rt::tellText(Transport &transport,
                                 const std::string &text) {
  if (transport.rank() != 0)
    return receiveText(transport, 0);
  const int64_t size = static_cast<int64_t>(text.size());
  std::vector<Request> sends; // To all ranks at the same time.
  for (int peer = 1; peer < transport.size(); ++peer) {
    sends.push_back(transport.isend(peer, controlTag, &size, sizeof size));
    sends.push_back(transport.isend(peer, controlTag + 1, text.data(), size));
  }
  for (Request &send : sends)
    transport.wait(send);
  return text;
}

/// Rank 0 gathers the texts and sends all of them to each rank.
std::vector<std::string> heddle::rt::exchangeTexts(Transport &transport,
                                                   const std::string &text) {
  std::vector<std::string> texts = gatherTexts(transport, text);
  if (transport.rank() != 0) {
    texts.resize(transport.size());
    for (std::string &each : texts)
      each = receiveText(transport, 0);
    return texts;
  }
  for (int peer = 1; peer < transport.size(); ++peer)
    for (const std::string &each : texts)
      sendText(transport, peer, each);
  return texts;
}

void heddle::rt::gatherParts(Transport &transport,
                             const std::vector<GatheredPart> &parts) {
  const int rank = transport.rank();
  std::vector<Request> requests;
  for (const GatheredPart &part : parts) {
    if (part.from == 0)
      continue;
    if (rank == 0)
      requests.push_back(
          transport.irecv(part.from, controlTag, part.data, part.bytes));
    else if (rank == part.from)
      requests.push_back(transport.isend(0, controlTag, part.data, part.bytes));
  }
  for (Request &request : requests)
    transport.wait(request);
}
