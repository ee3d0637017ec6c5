//===- DrawRun.cpp - Pictures of kernels, of a run, of two plans ----------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Drawings.h"
#include "ExplainText.h"
#include "heddle/PlanFormat/Format.h"
#include <algorithm>
#include <cmath>
#include <set>

using namespace heddle;
using namespace heddle::driver;
using draw::formatCoordinate;
using draw::SvgWriter;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Roofline
//===----------------------------------------------------------------------===//

std::string driver::drawRoofline(const json &kernels,
                                 const cost::Cluster &cluster) {
  // Both axes are logarithmic: operations for each byte from 1/16 to 4096, and
  // a rate from 1/4096 of the device's peak.
  // Above the peak, one octave is left free for the points.
  constexpr double leastIntensity = -4, mostIntensity = 12, octaves = 12,
                   free = 1;
  double peak = cluster.flops, memory = cluster.memoryPerSecond;
  auto x = [](double intensity) {
    return std::clamp((std::log2(intensity) - leastIntensity) /
                          (mostIntensity - leastIntensity) * 1000,
                      0.0, 1000.0);
  };
  auto y = [&](double rate) {
    return std::clamp((free - std::log2(rate / peak)) / (octaves + free) * 1000,
                      0.0, 1000.0);
  };
  Chart chart("Roofline of the kernels of a step",
              "Rate that a kernel can reach by its operations for each byte; "
              "the area of a point is its share of the step's time");
  chart.addText("across: operations for each byte; up: the rate that they "
                "allow, at most " +
                formatFlops(peak) + "/s, or " +
                plan::formatBytes(std::llround(memory)) + "/s of memory");
  chart.addLegend(
      {{"copy", "bound by memory"}, {"compute", "bound by arithmetic"}});
  double all = 0;
  auto secondsOf = [&](const json &kernel) {
    return cluster.kernelSeconds(kernel["flops"], kernel["bytes"]) *
           kernel["calls"].get<double>();
  };
  for (const json &kernel : kernels)
    all += secondsOf(kernel);
  ChartAxis across = {mostIntensity - leastIntensity,
                      [&](double value) {
                        return formatNumber("%g FLOP/B",
                                            std::exp2(value + leastIntensity));
                      },
                      1000, ""};
  ChartAxis up = {octaves + free,
                  [&](double value) {
                    return formatFlops(peak * std::exp2(value - octaves)) +
                           "/s";
                  },
                  1000, ""};
  chart.addPlot("roofline", 260, across, up, [&](SvgWriter &svg) {
    double ridge = peak / memory;
    svg.element(
        "path",
        {{"class", "curve"},
         {"d", "M0 " + formatCoordinate(y(std::exp2(leastIntensity) * memory)) +
                   "L" + formatCoordinate(x(ridge)) + " " +
                   formatCoordinate(y(peak)) + "H1000"}});
    for (size_t i = 0; i < kernels.size(); ++i) {
      const json &kernel = kernels[i];
      double flops = kernel["flops"], bytes = kernel["bytes"];
      if (kernel["calls"] == 0 || flops <= 0 || bytes <= 0)
        continue;
      double radius =
          3 + 40 * std::sqrt(secondsOf(kernel) / std::max(all, 1e-30));
      double intensity = flops / bytes;
      svg.open("ellipse",
               {{"data-kernel", i},
                {"class", intensity < ridge ? "c-copy" : "c-compute"},
                {"fill-opacity", 0.65},
                {"cx", x(intensity)},
                {"cy", y(std::min(peak, intensity * memory))},
                {"rx", radius * 0.45},
                {"ry", radius * 1.4}});
      svg.text("title", {}, kernel["ops"].get<std::string>());
      svg.close();
    }
  });
  return chart.finish(/*isStandalone=*/false);
}

//===----------------------------------------------------------------------===//
// A run
//===----------------------------------------------------------------------===//

std::string driver::drawCurve(const RunCurve &curve) {
  double least = 0, most = 0, lastStep = 1;
  for (const auto &[step, value] : curve.points) {
    most = std::max(most, value);
    least = std::min(least, value);
    lastStep = std::max(lastStep, step);
  }
  if (most == least)
    most = least + 1;
  Chart chart(curve.name, std::to_string(curve.points.size()) + " values");
  ChartAxis up = {
      most - least,
      [least](double value) { return formatNumber("%.4g", value + least); },
      1000, ""};
  ChartAxis across = countAxis(lastStep, "steps");
  chart.addPlot("run", 150, across, up, [&](SvgWriter &svg) {
    std::string path;
    for (const auto &[step, value] : curve.points)
      path += (path.empty() ? "M" : "L") + formatCoordinate(across.at(step)) +
              " " + formatCoordinate(1000 - up.at(value - least));
    svg.element("path",
                {{"class", "curve"}, {"data-curve", curve.name}, {"d", path}});
  });
  return chart.finish(/*isStandalone=*/false);
}

//===----------------------------------------------------------------------===//
// Two plans
//===----------------------------------------------------------------------===//

std::string driver::drawOwnersOfTwo(const json &first, const json &second,
                                    const std::string &firstName,
                                    const std::string &secondName) {
  const json *plans[] = {&first, &second};
  std::set<std::string> owners;
  double most = 0;
  for (const json *of : plans) {
    double sum = 0;
    for (const auto &[name, bytes] : of->items()) {
      owners.insert(name);
      sum += bytes.get<double>();
    }
    most = std::max(most, sum);
  }
  Chart chart("Memory of a rank, by owner", firstName + " and " + secondName);
  std::vector<LegendEntry> legend;
  for (const std::string &owner : owners)
    legend.push_back({colourOfOwner(owner), owner});
  chart.addLegend(legend);
  ChartAxis axis = bytesAxis(most);
  chart.addRows("owners", {"first", "second"}, 36, axis, [&](SvgWriter &svg) {
    for (size_t i = 0; i < 2; ++i) {
      double begin = 0;
      for (const std::string &owner : owners) {
        double bytes = plans[i]->value(owner, 0.0);
        if (bytes <= 0)
          continue;
        svg.element("rect", {{"class", "c-" + colourOfOwner(owner)},
                             {"data-owner", owner},
                             {"x", axis.at(begin)},
                             {"y", double(i) * 500 + 60},
                             {"width", axis.at(bytes)},
                             {"height", 380}});
        begin += bytes;
      }
    }
  });
  return chart.finish(false);
}
