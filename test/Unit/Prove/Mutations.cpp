//===- Mutations.cpp - Traces that were broken, or only reordered ---------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/Prove/Mutations.h"
#include <algorithm>
#include <functional>

using namespace heddle;
using namespace heddle::prove;
using namespace heddle::test;

using Random = std::mt19937_64;

namespace {

/// One rank's trace, and where to change it.
struct Subject {
  Random &random;
  Trace &trace;
  Body &body;

  size_t below(size_t count) { return random() % count; }

  /// The position of a random event that fits, or -1.
  int64_t find(const std::function<bool(const Event &)> &fits) {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < body.size(); ++i)
      if (fits(body[i]))
        positions.push_back(i);
    return positions.empty() ? -1 : positions[below(positions.size())];
  }
  int64_t find(Event::Kind kind) {
    return find([&](const Event &event) { return event.kind == kind; });
  }
  int64_t wait(int32_t token) {
    return find([&](const Event &event) {
      return event.kind == Event::Kind::Wait && event.token == token;
    });
  }

  void erase(int64_t position) { body.erase(body.begin() + position); }
  void move(int64_t from, int64_t to) {
    to = std::clamp<int64_t>(to, 0, body.size() - 1);
    if (from < to)
      std::rotate(body.begin() + from, body.begin() + from + 1,
                  body.begin() + to + 1);
    else
      std::rotate(body.begin() + to, body.begin() + from,
                  body.begin() + from + 1);
  }

  /// A copy of what the event starts or sends, for it alone.
  Collective &ownCollective(Event &event) {
    trace.collectives.push_back(trace.collectives[event.number]);
    event.number = trace.collectives.size() - 1;
    return trace.collectives.back();
  }
  Message &ownMessage(Event &event) {
    trace.messages.push_back(trace.messages[event.number]);
    event.number = trace.messages.size() - 1;
    return trace.messages.back();
  }
};

bool isMessage(const Event &event) {
  return event.kind == Event::Kind::Send || event.kind == Event::Kind::Receive;
}

/// `trace.buffers[buffer]` has more bytes than the access: it is a part.
bool isPart(const Trace &trace, const Access &access) {
  Range whole = trace.buffers[access.buffer];
  return whole.end - whole.begin > access.bytes;
}

using Change = Mutation (*)(Subject &);

Mutation drop(Subject &subject, Event::Kind kind, const char *what) {
  int64_t position = subject.find(kind);
  if (position < 0)
    return {};
  subject.erase(position);
  return {what, ""};
}

Mutation swapCollectives(Subject &s) {
  int64_t first = s.find(Event::Kind::Start);
  if (first < 0)
    return {};
  for (size_t next = first + 1; next < s.body.size(); ++next)
    if (s.body[next].kind == Event::Kind::Start) {
      std::swap(s.body[first], s.body[next]);
      return {"swap two collectives", ""};
    }
  return {};
}

Mutation dropCollective(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  int64_t wait = s.wait(s.body[position].token);
  if (wait >= 0)
    s.erase(wait);
  s.erase(position);
  return {"drop a collective and its wait", ""};
}

Mutation dropStart(Subject &s) {
  return drop(s, Event::Kind::Start, "drop a start");
}
Mutation dropWait(Subject &s) {
  return drop(s, Event::Kind::Wait, "drop a wait");
}
Mutation dropSend(Subject &s) {
  return drop(s, Event::Kind::Send, "drop a send");
}
Mutation dropReceive(Subject &s) {
  return drop(s, Event::Kind::Receive, "drop a receive");
}
Mutation dropFlush(Subject &s) {
  return drop(s, Event::Kind::Flush, "drop a flush");
}

Mutation renameGroup(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  auto &axes = s.ownCollective(s.body[position]).what.axes;
  const char *names[] = {"pipe", "data", "tensor"};
  std::vector<std::string> other = {names[s.below(3)]};
  if (axes == other)
    return {};
  axes = other;
  return {"rename a communicator", ""};
}

Mutation shrinkCount(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  Event &event = s.body[position];
  Collective &collective = s.ownCollective(event);
  int64_t width = plan::byteSize(collective.what.type);
  if (collective.targetBytes <= width || collective.sourceBytes <= width)
    return {};
  collective.targetBytes /= 2;
  collective.sourceBytes /= 2;
  for (Access &access : event.accesses)
    if (access.operand < 2)
      access.bytes /= 2;
  return {"shrink a collective", ""};
}

Mutation changeWire(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  plan::DType &wire = s.ownCollective(s.body[position]).what.wire;
  wire = wire == plan::DType::BF16 ? plan::DType::F32 : plan::DType::BF16;
  return {"change a wire type", ""};
}

Mutation changeKind(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  auto &kind = s.ownCollective(s.body[position]).what.kind;
  using Kind = plan::Collective::Kind;
  kind = kind == Kind::AllReduce ? Kind::AllToAll : Kind::AllReduce;
  return {"change what a collective does", ""};
}

Mutation duplicateCollective(Subject &s) {
  int64_t position = s.find(Event::Kind::Start);
  if (position < 0)
    return {};
  Event start = s.body[position], wait;
  start.token = wait.token = s.trace.tokens++;
  wait.kind = Event::Kind::Wait;
  wait.origin = start.origin;
  s.body.insert(s.body.begin() + position, {start, wait});
  return {"run a collective twice", ""};
}

Mutation changePeer(Subject &s) {
  int64_t position = s.find(isMessage);
  if (position < 0)
    return {};
  Message &message = s.ownMessage(s.body[position]);
  message.channel.delta += s.below(2) ? 1 : -1;
  return {"change a peer", ""};
}

Mutation changeChannel(Subject &s) {
  int64_t position = s.find(isMessage);
  if (position < 0)
    return {};
  s.ownMessage(s.body[position]).channel.name += "'";
  return {"change a channel", ""};
}

Mutation changeSize(Subject &s) {
  int64_t position = s.find(isMessage);
  if (position < 0)
    return {};
  Message &message = s.ownMessage(s.body[position]);
  if (message.bytes < 8)
    return {};
  message.bytes /= 2;
  s.body[position].accesses[0].bytes /= 2;
  return {"shrink a message", ""};
}

Mutation moveEvent(Subject &s, Event::Kind kind, bool later, const char *what) {
  int64_t position = s.find(kind);
  if (position < 0)
    return {};
  int64_t distance = 1 + s.below(12);
  s.move(position, position + (later ? distance : -distance));
  return {what, ""};
}

Mutation waitEarlier(Subject &s) {
  return moveEvent(s, Event::Kind::Wait, false, "move a wait earlier");
}
Mutation waitLater(Subject &s) {
  return moveEvent(s, Event::Kind::Wait, true, "move a wait later");
}
Mutation startEarlier(Subject &s) {
  return moveEvent(s, Event::Kind::Start, false, "move a start earlier");
}
Mutation startLater(Subject &s) {
  return moveEvent(s, Event::Kind::Start, true, "move a start later");
}
Mutation sendEarlier(Subject &s) {
  return moveEvent(s, Event::Kind::Send, false, "move a send earlier");
}
Mutation receiveLater(Subject &s) {
  return moveEvent(s, Event::Kind::Receive, true, "move a receive later");
}
Mutation receiveEarlier(Subject &s) {
  return moveEvent(s, Event::Kind::Receive, false, "move a receive earlier");
}
Mutation flushLater(Subject &s) {
  return moveEvent(s, Event::Kind::Flush, true, "move a flush later");
}
Mutation flushEarlier(Subject &s) {
  return moveEvent(s, Event::Kind::Flush, false, "move a flush earlier");
}

Mutation changeFlush(Subject &s) {
  int64_t position = s.find(Event::Kind::Flush);
  if (position < 0)
    return {};
  int64_t &left = s.body[position].left;
  left = left > 0 && s.below(2) ? left - 1 : left + 1;
  return {"change how many sends a flush leaves", ""};
}

bool overlap(const Access &a, const Access &b) {
  return a.space == b.space && Range{a.begin, a.begin + a.bytes}.overlaps(
                                   {b.begin, b.begin + b.bytes});
}

/// Whether the event moves from behind a collective to before it, or back, and
/// uses what that one changes in place.
bool crossesSum(Subject &s, int64_t from, int64_t to) {
  for (int64_t i = std::min(from, to); i <= std::max(from, to); ++i) {
    const Event &start = s.body[i];
    int64_t wait = start.kind == Event::Kind::Start ? s.wait(start.token) : -1;
    if (wait < std::min(from, to) || wait > std::max(from, to) ||
        !overlap(start.accesses[0], start.accesses[1]))
      continue;
    for (const Access &access : s.body[from].accesses)
      if (overlap(access, start.accesses[1]))
        return true;
  }
  return false;
}

/// Over the commands that communicate which stand next to it.
Mutation moveLaunch(Subject &s) {
  int64_t position = s.find([](const Event &event) {
    return event.kind == Event::Kind::Launch || event.kind == Event::Kind::Copy;
  });
  if (position < 0)
    return {};
  int64_t step = s.below(2) ? 1 : -1, to = position;
  auto communicates = [&](int64_t place) {
    return place >= 0 && place < static_cast<int64_t>(s.body.size()) &&
           s.body[place].isCommunication();
  };
  while (communicates(to + step))
    to += step;
  if (to == position)
    return {};
  Mutation mutation{"move a launch over a communication", ""};
  if (crossesSum(s, position, to))
    mutation.invisible = "a reader of what is summed in place, before the sum";
  s.move(position, to);
  return mutation;
}

/// Two that a channel cannot tell from each other change places.
Mutation swapMessages(Subject &s) {
  int64_t first = s.find(isMessage);
  if (first < 0)
    return {};
  for (size_t next = first + 1; next < s.body.size(); ++next) {
    Event &a = s.body[first], &b = s.body[next];
    if (b.kind != a.kind || s.trace.messages[a.number].channel.name !=
                                s.trace.messages[b.number].channel.name)
      continue;
    std::string invisible;
    if (a.iteration == b.iteration)
      invisible = "two messages of a channel, alike in size and micro-batch";
    std::swap(a, b);
    return {"swap two messages of a channel", invisible};
  }
  return {};
}

Mutation shiftOffset(Subject &s) {
  int64_t position = s.find([](const Event &event) {
    return event.kind != Event::Kind::Fresh && !event.accesses.empty();
  });
  if (position < 0)
    return {};
  Event &event = s.body[position];
  Access &access = event.accesses[s.below(event.accesses.size())];
  if (access.bytes == 0)
    return {};
  int64_t shift = 64 * (1 + s.below(4)) * (s.below(2) ? 1 : -1);
  int16_t operand = access.operand;
  Mutation mutation{"shift an operand", ""};
  for (Access &other : event.accesses)
    if (other.operand == operand) {
      if (isPart(s.trace, other))
        mutation.invisible = other.space == Space::Persistent
                                 ? "a part of a state, inside of the state"
                                 : "a part of a buffer, inside of the buffer";
      other.begin += shift;
    }
  return mutation;
}

constexpr Change changes[] = {
    swapCollectives, dropCollective, dropStart,    dropWait,
    dropSend,        dropReceive,    dropFlush,    renameGroup,
    shrinkCount,     changeWire,     changeKind,   duplicateCollective,
    changePeer,      changeChannel,  changeSize,   waitEarlier,
    waitLater,       startEarlier,   startLater,   sendEarlier,
    receiveLater,    receiveEarlier, flushLater,   flushEarlier,
    changeFlush,     moveLaunch,     swapMessages, shiftOffset,
};

} // namespace

int heddle::test::numMutations() { return std::size(changes); }

Mutation heddle::test::mutate(int kind, Random &random, Traces &traces) {
  Trace &trace = traces[random() % traces.size()];
  Subject subject{random, trace, trace.bodies[0]};
  return changes[kind](subject);
}

//===----------------------------------------------------------------------===//
// Harmless changes
//===----------------------------------------------------------------------===//

static bool conflict(const std::vector<Access> &a,
                     const std::vector<Access> &b) {
  for (const Access &x : a)
    for (const Access &y : b)
      if ((x.writes || y.writes) && overlap(x, y))
        return true;
  return false;
}

/// What becomes the buffer's is as good as written.
static std::vector<Access> usesOf(const Event &event) {
  std::vector<Access> uses = event.accesses;
  for (Access &access : uses)
    access.writes |= event.kind == Event::Kind::Fresh;
  return uses;
}

/// Whether `event` may move over its neighbour `over`, later or earlier.
/// `inFlight`: what a wait or flush gives free.
static bool mayPass(const Event &event, const Event &over, bool later,
                    const std::vector<Access> &inFlight) {
  bool computes = !over.isCommunication();
  switch (event.kind) {
  case Event::Kind::Launch:
  case Event::Kind::Copy:
  case Event::Kind::CopyRows:
  case Event::Kind::Fill:
    return computes && !conflict(usesOf(event), usesOf(over));
  case Event::Kind::Start:
  case Event::Kind::Send:
    // Over a receive: what starts does not block.
    return (computes || (!later && over.kind == Event::Kind::Receive)) &&
           !conflict(usesOf(event), usesOf(over));
  case Event::Kind::Receive:
    return computes && !conflict(usesOf(event), usesOf(over));
  case Event::Kind::Wait:
  case Event::Kind::Flush:
    return computes && (!later || !conflict(inFlight, usesOf(over)));
  default:
    return false;
  }
}

/// What the wait or flush at `position` gives free; for a flush all that was
/// sent on the channel.
static std::vector<Access> inFlightAt(const Trace &trace, int64_t position) {
  const Body &body = trace.bodies[0];
  std::vector<Access> uses;
  for (int64_t i = 0; i < position; ++i) {
    bool ends =
        body[position].kind == Event::Kind::Wait
            ? body[i].kind == Event::Kind::Start &&
                  body[i].token == body[position].token
            : body[position].kind == Event::Kind::Flush &&
                  body[i].kind == Event::Kind::Send &&
                  trace.messages[body[i].number].channel.name ==
                      trace.messages[body[position].number].channel.name;
    if (ends)
      uses.insert(uses.end(), body[i].accesses.begin(), body[i].accesses.end());
  }
  return uses;
}

int heddle::test::reorder(Random &random, Traces &traces) {
  int moves = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    Trace &trace = traces[random() % traces.size()];
    Body &body = trace.bodies[0];
    int64_t position = random() % body.size();
    bool communicates = random() % 4 != 0;
    for (size_t i = 0; communicates && i < body.size(); ++i)
      if (body[(position + i) % body.size()].isCommunication()) {
        position = (position + i) % body.size();
        break;
      }
    bool later = random() % 2;
    std::vector<Access> inFlight = inFlightAt(trace, position);
    for (int64_t distance = 1 + random() % 20; distance > 0; --distance) {
      int64_t next = position + (later ? 1 : -1);
      if (next < 0 || next >= static_cast<int64_t>(body.size()) ||
          !mayPass(body[position], body[next], later, inFlight))
        break;
      std::swap(body[position], body[next]);
      position = next;
      ++moves;
    }
  }
  return moves;
}
