//===- HostMirror.cpp - Host access to a device's memory ------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "heddle/runtime/core/HostMirror.h"
#include "heddle/runtime/io/Diagnostic.h"

using namespace heddle::rt;

HostMirror::HostMirror(Device &device, const std::vector<Region> &memory)
    : device(device), computed(device.makeEvent()) {
  for (const Region &part : memory) {
    if (part.bytes == 0)
      continue;
    Mirrored mirrored;
    mirrored.region = part;
    mirrored.host = device.map(part.begin);
    if (!mirrored.host) {
      mirrored.pages = Arena(part.bytes, "the host's copy of device memory");
      mirrored.host = mirrored.pages.data();
    }
    all.push_back(std::move(mirrored));
  }
}

const HostMirror::Mirrored &HostMirror::find(Address address,
                                             int64_t bytes) const {
  for (const Mirrored &mirrored : all) {
    const Region &region = mirrored.region;
    int64_t offset = address - region.begin;
    if (offset >= 0 && offset < region.bytes && bytes <= region.bytes - offset)
      return mirrored;
  }
  fail("H0412", "the host looks for bytes where its device has none",
       "report this as a bug");
}

char *HostMirror::at(Address address, int64_t bytes) const {
  if (bytes == 0)
    return nullptr;
  const Mirrored &found = find(address, bytes);
  return found.host + (address - found.region.begin);
}

void HostMirror::awaitComputation() {
  device.record(Stream::Compute, computed);
  device.wait(Stream::Communication, computed);
}

char *HostMirror::load(Address address, int64_t bytes) {
  char *host = at(address, bytes);
  if (bytes == 0 || !copies(address, bytes)) {
    device.synchronize(Stream::Compute);
    return host;
  }
  awaitComputation();
  device.copyOut(Stream::Communication, host, address, bytes);
  device.synchronize(Stream::Communication);
  return host;
}

const char *HostMirror::view(Address address, int64_t bytes) {
  if (const char *seen = device.map(address)) {
    device.synchronize(Stream::Compute);
    return seen;
  }
  viewed.resize(viewBytes);
  awaitComputation();
  device.copyOut(Stream::Communication, viewed.data(), address, bytes);
  device.synchronize(Stream::Communication);
  return viewed.data();
}

void HostMirror::store(Address address, int64_t bytes) {
  if (bytes == 0 || !copies(address, bytes))
    return;
  awaitComputation();
  device.copyIn(Stream::Communication, address, at(address, bytes), bytes);
  device.synchronize(Stream::Communication);
}

void HostMirror::release(Address address, int64_t bytes) {
  if (bytes == 0 || !copies(address, bytes))
    return;
  const Mirrored &found = find(address, bytes);
  found.pages.discard(address - found.region.begin, bytes);
}
