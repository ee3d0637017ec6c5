//===- StateTensors.cpp - States as tensors of files ----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads states from tensors of weight files: from slices of tensors, also
// strided ones, or from quantized weights. Describes states as tensors that all
// ranks write to a file together.
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/app/StateTensors.h"
#include "heddle/runtime/io/CodedWeights.h"
#include "heddle/runtime/io/ExtendTable.h"

#include <algorithm>
#include <cstring>

using namespace heddle;
using namespace heddle::rt;

/// The number of elements that are copied at a time: so few that they stay in
/// the CPU's cache.
static constexpr int64_t blockElements = int64_t(1) << 16;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

const plan::State *heddle::rt::findParameter(const plan::Stage &stage,
                                             const plan::State &state) {
  if (state.role == plan::StateRole::Parameter)
    return &state;
  for (const plan::State &candidate : stage.states)
    if (candidate.role == plan::StateRole::Parameter &&
        candidate.name == state.parameter)
      return &candidate;
  return nullptr;
}

std::vector<plan::WeightSlice> heddle::rt::sourcesOf(const plan::Stage &stage,
                                                     const plan::State &state) {
  const plan::State *parameter = findParameter(stage, state);
  // A number of a parameter has a tensor of its own, also if the parameter is
  // made of several tensors, or of a part of one.
  if (parameter && state.shape.empty() && !parameter->shape.empty())
    return {wholeTensor(parameter->name, {})};
  const plan::State &owner = parameter ? *parameter : state;
  if (!owner.sources.empty())
    return owner.sources;
  const std::vector<int64_t> &whole = owner.placement.whole;
  if (!owner.packed.empty())
    return {wholeTensor(owner.packed[0].name,
                        whole.empty() ? owner.packed[0].shape : whole)};
  return {wholeTensor(owner.name, whole.empty() ? owner.shape : whole)};
}

const io::TensorInfo *heddle::rt::findTensor(const io::WeightSet &weights,
                                             const std::string &name) {
  if (const io::TensorInfo *found = weights.find(name))
    return found;
  size_t dot = name.find('.');
  if (dot != std::string::npos)
    if (const io::TensorInfo *found = weights.find(name.substr(dot + 1)))
      return found;
  for (const io::TensorInfo &tensor : weights.tensors()) {
    size_t prefix = tensor.name.find('.');
    if (prefix != std::string::npos &&
        tensor.name.compare(prefix + 1, std::string::npos, name) == 0)
      return &tensor;
  }
  return nullptr;
}

void heddle::rt::extendPositions(io::WeightSet &weights,
                                 const plan::ExtendedTable &extended) {
  if (extended.tensor.empty())
    return;
  const io::TensorInfo *table = findTensor(weights, extended.tensor);
  if (!table)
    return;
  const std::vector<int64_t> &shape = table->shape;
  if (!shape.empty() && shape[0] != extended.sourceRows &&
      shape[0] != extended.rows) {
    const std::string first = std::to_string(extended.sourceRows),
                      rows = std::to_string(extended.rows);
    fail("H0131",
         "--extend-positions: the table of positions " + table->name +
             " of these weights has " + std::to_string(shape[0]) +
             " rows; this binary makes " + rows + " of " + first,
         "give weights with " + first + " or " + rows +
             " rows, or compile these weights with --extend-positions");
  }
  io::extendTable(weights, *table, extended);
}

SourceReader::SourceReader(const io::WeightSet &weights,
                           const std::vector<plan::WeightSlice> &pieces,
                           const std::string &state, const std::string &prefix)
    : weights(weights), pieces(pieces) {
  checkWeightSlices(pieces);
  for (const plan::WeightSlice &piece : pieces) {
    const io::TensorInfo *found =
        prefix.empty() ? findTensor(weights, piece.tensor) : nullptr;
    const io::TensorInfo &info =
        found ? *found : weights.at(prefix + piece.tensor);
    if (info.shape != piece.shape)
      fail("H0387",
           "tensor '" + info.name + "' in " + info.file + " has shape " +
               io::shapeToString(info.shape) + ", the plan needs " +
               io::shapeToString(piece.shape) + " for " + state,
           "use weights of the model that was compiled, or compile again for "
           "these");
    tensors.push_back({&info, weights.hold(info)});
  }
}

SourceReader::~SourceReader() {
  for (const Tensor &tensor : tensors)
    weights.forget(*tensor.info, 0, tensor.info->bytes);
}

void SourceReader::requireConvertible(const std::string &type) const {
  for (const Tensor &tensor : tensors)
    io::WeightSet::requireConvertible(*tensor.info, type);
}

/// Copies `count` elements of `width` bytes; in `from` they are `stride`
/// elements apart.
static void gather(const uint8_t *from, int64_t width, int64_t stride,
                   int64_t count, uint8_t *to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * width, from + i * stride * width, width);
}

int64_t SourceReader::read(int64_t first, int64_t count,
                           const std::string &type, void *target) const {
  int64_t to = io::dtypeBits(type) / 8, bad = -1;
  std::vector<uint8_t> gathered;
  forEachRun(pieces, first, count, [&](const WeightRange &run) {
    const Tensor &tensor = tensorOf(run);
    const std::string &dtype = tensor.info->dtype;
    int64_t from = io::dtypeBits(dtype) / 8;
    for (int64_t done = 0; done < run.count && bad < 0; done += blockElements) {
      int64_t part = std::min(blockElements, run.count - done);
      const uint8_t *source =
          tensor.data.get() + (run.tensor + done * run.stride) * from;
      if (run.stride != 1) {
        gathered.resize(part * from);
        gather(source, from, run.stride, part, gathered.data());
        source = gathered.data();
      }
      int64_t element = run.state + done;
      char *here = static_cast<char *>(target) + (element - first) * to;
      io::convertElements(source, dtype, here, type, part);
      // Release the memory of the file's mapped pages that were read. Do not
      // release them for strided elements, because the same pages also hold
      // elements that are read later.
      if (run.stride == 1)
        weights.forget(*tensor.info, (run.tensor + done) * from, part * from);
      int64_t found = io::firstNonFinite(here, type, part);
      if (found >= 0)
        bad = element + found;
    }
  });
  return bad;
}

bool SourceReader::hasCodes() const {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor &tensor) {
    return tensor.info->coded != nullptr;
  });
}

std::vector<SourceReader::CodedOutput> SourceReader::codedOutputs() const {
  const io::TensorInfo &first = *tensors.front().info;
  for (const Tensor &tensor : tensors)
    if (!tensor.info->coded ||
        tensor.info->isTransposed != first.isTransposed ||
        tensor.info->coded->inputs != first.coded->inputs)
      return {};
  int64_t numElements = 0;
  for (const plan::WeightSlice &piece : pieces) {
    int64_t count = 1;
    for (const plan::WeightSlice::Loop &loop : piece.loops)
      count *= loop.extent;
    numElements += count;
  }
  const int64_t inputs = first.coded->inputs, outputs = numElements / inputs;
  // Length of a row of the stored matrix. A transposed matrix is [outputs,
  // inputs], where an output is a row. Otherwise, the matrix is [inputs,
  // outputs], where an output is a column.
  const int64_t line = first.isTransposed ? inputs : outputs;
  std::vector<CodedOutput> found(outputs);
  bool fits = true;
  auto add = [&](int64_t output, const CodedOutput &from) {
    if (!found[output].matrix)
      found[output] = from;
    fits &= found[output] == from;
  };
  forEachRun(pieces, 0, numElements, [&](const WeightRange &run) {
    const io::CodedMatrix *matrix = tensorOf(run).info->coded.get();
    const int64_t theirs = first.isTransposed ? inputs : matrix->outputs;
    for (int64_t done = 0; done < run.count && fits;) {
      int64_t to = run.state + done, from = run.tensor + done * run.stride;
      int64_t count = std::min(run.count - done, line - to % line);
      int64_t last = from + (count - 1) * run.stride;
      if (first.isTransposed) {
        fits = to % line == from % line &&
               to % line + count - 1 == last % line &&
               from / line == last / line;
        add(to / line, {matrix, from / line});
      } else {
        fits = to / line == from / theirs && to / line == last / theirs;
        for (int64_t i = 0; i < count && fits; ++i)
          add(to % line + i, {matrix, from % theirs + i * run.stride});
      }
      done += count;
    }
  });
  return fits ? found : std::vector<CodedOutput>();
}

GroupScales SourceReader::scalesFor(const plan::PackedWeight &whole) const {
  std::vector<CodedOutput> outputs = codedOutputs();
  std::map<const io::CodedMatrix *, io::CodeReader> readers;
  std::vector<const io::CodeReader *> readerOf; // Reader of each output.
  for (const CodedOutput &output : outputs) {
    const io::CodedMatrix &matrix = *output.matrix;
    bool isInOrder = matrix.format.inOrder || matrix.isByGroup;
    if (matrix.format.bits != whole.bits || !isInOrder ||
        matrix.groupLength() != whole.groupLength())
      return {};
    readerOf.push_back(
        &readers.try_emplace(&matrix, matrix, weights).first->second);
  }
  int32_t middle = 1 << (whole.bits - 1);
  GroupScales codes;
  for (int64_t group = 0; group < whole.groups(); ++group)
    for (size_t i = 0; i < outputs.size(); ++i)
      codes.push_back({readerOf[i]->scale(group, outputs[i].output),
                       readerOf[i]->zero(group, outputs[i].output) - middle});
  auto hasZero = [](const GroupScale &code) { return code.zero != 0; };
  if (whole.even && std::any_of(codes.begin(), codes.end(), hasZero))
    return {};
  return codes;
}

void heddle::rt::requireOrders(
    const io::WeightSet &weights,
    const std::map<std::string, std::string> &orders) {
  const std::string help = "use weights whose orders agree, or compile again "
                           "for these";
  auto read = [&](const std::string &name) {
    const io::TensorInfo *info = findTensor(weights, name);
    if (!info || !info->isOrder)
      fail("H0389",
           "these weights have no " + name +
               " (g_idx with desc_act), as the weights that were compiled have",
           help, {weights.origin(), 0, 0});
    auto held = weights.hold(*info);
    auto *first = reinterpret_cast<const int32_t *>(held.get());
    return std::vector<int32_t>(first, first + info->numElements());
  };
  for (const auto &[name, like] : orders) {
    std::vector<int32_t> order = read(name);
    if (like.empty() ? std::is_sorted(order.begin(), order.end())
                     : order == read(like))
      continue;
    fail("H0389",
         "the inputs of these weights (g_idx) are in other orders than those "
         "of the weights that were compiled: " +
             name + " is not " +
             (like.empty() ? "that of the groups" : "the same as " + like),
         help, {weights.origin(), 0, 0});
  }
}

void SourceReader::failNonFinite(const std::string &type,
                                 int64_t element) const {
  forEachRun(pieces, element, 1, [&](const WeightRange &run) {
    io::failNonFinite(*tensorOf(run).info, type, run.tensor);
  });
  std::abort(); // Every element belongs to some range.
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

/// Passes the elements of one tensor to `sink`, a function that writes bytes to
/// a file. Single elements are first collected and sorted, so that `sink` gets
/// a few large chunks.
class TensorWriter {
public:
  TensorWriter(int64_t width, const io::SharedTensor::Sink &sink)
      : width(width), sink(sink) {}

  void write(const WeightRange &run, const char *data) {
    if (run.stride == 1 && run.count > 1) {
      sink(run.tensor * width, data, run.count * width);
      return;
    }
    for (int64_t i = 0; i < run.count; ++i)
      waiting.push_back({run.tensor + i * run.stride, data + i * width});
    if (int64_t(waiting.size()) >= blockElements)
      flush();
  }

  void flush() {
    std::sort(waiting.begin(), waiting.end());
    for (size_t i = 0; i < waiting.size();) {
      int64_t first = waiting[i].first, count = 0;
      gathered.clear();
      for (; i < waiting.size() && waiting[i].first == first + count;
           ++i, ++count)
        gathered.insert(gathered.end(), waiting[i].second,
                        waiting[i].second + width);
      sink(first * width, gathered.data(), count * width);
    }
    waiting.clear();
  }

private:
  int64_t width;
  const io::SharedTensor::Sink &sink;
  std::vector<std::pair<int64_t, const char *>> waiting;
  std::vector<char> gathered;
};

} // namespace

void heddle::rt::forEachPiece(
    const std::vector<ElementRange> &runs, int64_t most,
    const std::function<void(const std::vector<ElementRange> &piece,
                             int64_t count, int64_t first)> &visit) {
  std::vector<ElementRange> piece;
  int64_t first = 0, count = 0;
  auto flush = [&] {
    if (count > 0)
      visit(piece, count, first);
    piece.clear();
    count = 0;
  };
  for (ElementRange rest : runs)
    while (rest.count > 0) {
      if (rest.local != first + count || count == most)
        flush();
      if (count == 0)
        first = rest.local;
      int64_t taken = std::min(rest.count, most - count);
      piece.push_back({rest.whole, rest.local - first, taken});
      rest = {rest.whole + taken, rest.local + taken, rest.count - taken};
      count += taken;
    }
  flush();
}

/// Calls `visit(runs, elements)` for each chunk of the shard of a value that
/// this rank stores. `elements` points to the chunk's elements, and is only
/// valid during the call. `runs` lists where these elements belong in the
/// unsharded value, with local offsets relative to `elements`.
template <typename F>
static void viewRuns(Session &session, const Value &value,
                     const RankShard &part, F visit) {
  int64_t width = plan::byteSize(value.type);
  forEachPiece(part.runs(), HostMirror::viewBytes / width,
               [&](const std::vector<ElementRange> &piece, int64_t count,
                   int64_t first) {
                 const char *data = session.host().view(
                     value.address + first * width, count * width);
                 visit(piece, data);
               });
}

io::SharedTensor
heddle::rt::shareTensor(Session &session, const std::string &name,
                        plan::DType type, const std::vector<int64_t> &shape,
                        const plan::Placement &placement, const Value *value,
                        const RankShard *part) {
  io::SharedTensor tensor;
  tensor.name = name;
  tensor.dtype = plan::nameOf(type);
  tensor.shape = placement.whole.empty() ? shape : placement.whole;
  if (value && part->isFirstReplica())
    tensor.pieces = [&session, value,
                     part](const io::SharedTensor::Sink &sink) {
      int64_t width = plan::byteSize(value->type);
      viewRuns(session, *value, *part,
               [&](const std::vector<ElementRange> &piece, const char *data) {
                 for (const ElementRange &run : piece)
                   sink(run.whole * width, data + run.local * width,
                        run.count * width);
               });
    };
  return tensor;
}

/// Writes the elements of the file's tensor `tensor` that come from this rank's
/// shard of a state.
static void writeTensor(Session &session, const Value &value,
                        const RankShard &part,
                        const std::vector<plan::WeightSlice> &pieces,
                        const std::string &tensor,
                        const io::SharedTensor::Sink &sink) {
  int64_t width = plan::byteSize(value.type);
  TensorWriter writer(width, sink);
  viewRuns(session, value, part,
           [&](const std::vector<ElementRange> &piece, const char *data) {
             for (const ElementRange &run : piece)
               forEachRun(
                   pieces, run.whole, run.count, [&](const WeightRange &each) {
                     if (each.piece->tensor == tensor)
                       writer.write(
                           each,
                           data + (run.local + each.state - run.whole) * width);
                   });
             writer.flush();
           });
}

void SharedStates::add(const std::string &prefix, const std::string &name,
                       const std::vector<plan::WeightSlice> &pieces,
                       plan::DType type, const Value *value,
                       const RankShard *part) {
  if (!known.insert(prefix + name).second)
    return;
  checkWeightSlices(pieces);
  std::set<std::string> ofThisState;
  for (const plan::WeightSlice &piece : pieces) {
    if (!ofThisState.insert(piece.tensor).second)
      continue;
    auto [entry, isNew] =
        numbers.try_emplace(prefix + piece.tensor, tensors.size());
    if (isNew) {
      io::SharedTensor &tensor = tensors.emplace_back();
      tensor.name = prefix + piece.tensor;
      tensor.dtype = plan::nameOf(type);
      tensor.shape = piece.shape;
    }
    if (!value || !part->isFirstReplica())
      continue;
    // Several states may be slices of one tensor. So call the functions that
    // write the other states' elements too.
    auto &write = tensors[entry->second].pieces;
    write = [&session = session, value, part, pieces, others = write,
             tensor = piece.tensor](const io::SharedTensor::Sink &sink) {
      if (others)
        others(sink);
      writeTensor(session, *value, *part, pieces, tensor, sink);
    };
  }
}
