//===- AttentionAttrs.cpp - Attributes of attention -----------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax and verifiers of #nn.heads, #nn.mask, #nn.dropout and #nn.placement.
//
//===----------------------------------------------------------------------===//

#include "dialects/NN/NNDialect.h"

using namespace mlir;
using namespace heddle::nn;

/// Parses `keyword =`.
static ParseResult parseKey(AsmParser &parser, StringRef keyword) {
  return failure(parser.parseKeyword(keyword) || parser.parseEqual());
}

//===----------------------------------------------------------------------===//
// Heads
//===----------------------------------------------------------------------===//

Attribute HeadsAttr::parse(AsmParser &parser, Type) {
  SMLoc place = parser.getCurrentLocation();
  int64_t count = 0, kv = 0;
  double scale = 0, softcap = 0;
  if (parser.parseLess() || parser.parseInteger(count) || parser.parseComma())
    return {};
  kv = count;
  if (succeeded(parser.parseOptionalKeyword("kv")) &&
      (parser.parseEqual() || parser.parseInteger(kv) || parser.parseComma()))
    return {};
  if (parseKey(parser, "scale") || parser.parseFloat(scale))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parseKey(parser, "softcap") || parser.parseFloat(softcap)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<HeadsAttr>(place, parser.getContext(), count, kv,
                                      scale, softcap);
}

void HeadsAttr::print(AsmPrinter &printer) const {
  printer << "<" << getCount();
  if (getKv() != getCount())
    printer << ", kv = " << getKv();
  printer << ", scale = ";
  printer.printFloat(getScale());
  if (!getSoftcap().isZero()) {
    printer << ", softcap = ";
    printer.printFloat(getSoftcap());
  }
  printer << ">";
}

LogicalResult HeadsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t count, int64_t kv, APFloat scale,
                                APFloat softcap) {
  if (count < 1 || kv < 1 || count % kv)
    return emitError() << "has " << count << " heads and " << kv
                       << " key/value heads; the first must be a multiple of "
                          "the second";
  // Attention multiplies scores by `scale` in f32, in every compute precision.
  // A scale or soft cap above this limit could make scores overflow.
  constexpr double most = 1e30;
  double factor = scale.convertToDouble();
  if (!(std::abs(factor) <= most))
    return emitError() << "has scale " << factor
                       << "; its magnitude is at most " << most;
  double cap = softcap.convertToDouble();
  if (!(cap >= 0 && cap <= most))
    return emitError() << "has softcap " << cap << "; it is from 0 to " << most;
  return success();
}

HeadsAttr HeadsAttr::splitBetween(int64_t ranks) const {
  return get(getContext(), getCount() / ranks, getKv() / ranks, getScale(),
             getSoftcap());
}

//===----------------------------------------------------------------------===//
// Mask
//===----------------------------------------------------------------------===//

Attribute MaskAttr::parse(AsmParser &parser, Type) {
  SMLoc place = parser.getCurrentLocation();
  FailureOr<MaskKind> kind = failure();
  int64_t window = 0, block = 0;
  FloatAttr density;
  if (parser.parseLess() || failed(kind = FieldParser<MaskKind>::parse(parser)))
    return {};
  while (succeeded(parser.parseOptionalComma())) {
    StringRef key;
    if (parser.parseKeyword(&key) || parser.parseEqual())
      return {};
    double share = 0;
    if (key == "window"  ? parser.parseInteger(window)
        : key == "block" ? parser.parseInteger(block)
        : key == "density"
            ? parser.parseFloat(share)
            : parser.emitError(place, "unknown key of a mask: ") << key)
      return {};
    if (key == "density")
      density = FloatAttr::get(Float64Type::get(parser.getContext()), share);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<MaskAttr>(place, parser.getContext(), *kind, window,
                                     block, density);
}

void MaskAttr::print(AsmPrinter &printer) const {
  printer << "<" << stringifyMaskKind(getKind());
  if (getWindow())
    printer << ", window = " << getWindow();
  if (hasLayout()) {
    printer << ", block = " << getBlock() << ", density = ";
    printer.printFloat(getDensity().getValue());
  }
  printer << ">";
}

LogicalResult MaskAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               MaskKind kind, int64_t window, int64_t block,
                               FloatAttr density) {
  if (window < 0)
    return emitError() << "has a window of " << window
                       << " keys; it is 1 or more, or absent";
  if (window && kind != MaskKind::Causal)
    return emitError() << "has a window, which ends at the query's own "
                          "position: its kind must be causal";
  if (block && !llvm::is_contained({16, 32, 64, 128}, block))
    return emitError() << "has blocks of " << block
                       << " positions; 16, 32, 64 and 128 are possible";
  if (block && window)
    return emitError() << "has a window and a layout of blocks; give one";
  if ((block > 0) != static_cast<bool>(density))
    return emitError() << "needs both block and density, or none";
  if (density &&
      !(density.getValueAsDouble() >= 0 && density.getValueAsDouble() <= 1))
    return emitError() << "has density " << density.getValueAsDouble()
                       << "; it is from 0 to 1";
  return success();
}

double MaskAttr::meanKeys(int64_t length) const {
  auto keys = static_cast<double>(length);
  auto window = static_cast<double>(getWindow());
  if (hasLayout()) {
    double seen = keys * getDensity().getValueAsDouble();
    // A causal mask hides half of the pairs of each block on the diagonal.
    return isCausal()
               ? std::max(seen - (static_cast<double>(getBlock()) - 1) / 2, 0.0)
               : seen;
  }
  if (window && window < keys)
    return window - window * (window - 1) / (2 * keys);
  return isCausal() ? (keys + 1) / 2 : keys;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

Attribute DropoutAttr::parse(AsmParser &parser, Type) {
  SMLoc place = parser.getCurrentLocation();
  double p = 0;
  int32_t site = 0;
  if (parser.parseLess() || parser.parseFloat(p) || parser.parseComma() ||
      parseKey(parser, "site") || parser.parseInteger(site) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<DropoutAttr>(place, parser.getContext(), p, site);
}

void DropoutAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printer.printFloat(getP());
  printer << ", site = " << getSite() << ">";
}

LogicalResult DropoutAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  APFloat p, int32_t) {
  double share = p.convertToDouble();
  if (share >= 0 && share < 1)
    return success();
  return emitError() << "has probability " << share << "; it must be in [0, 1)";
}

//===----------------------------------------------------------------------===//
// Placement
//===----------------------------------------------------------------------===//

LogicalResult
PlacementAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                      int64_t parts, int64_t places, bool) {
  if (parts < 1 || places < 1)
    return emitError() << "cuts heads into " << parts
                       << " parts and the sequence into " << places
                       << "; the least is 1";
  return success();
}
