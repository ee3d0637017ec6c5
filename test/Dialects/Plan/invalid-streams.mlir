// RUN: heddle-opt %s --split-input-file --verify-diagnostics

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    // expected-error @+1 {{unknown kind of memory 'disk'; known are device, host, pinned and file}}
    persistent_bytes = #plan.bytes<disk 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{'plan.program' op arena_bytes is more than any machine has: 4611686018427387904}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<>, arena_bytes = #plan.bytes<host 4611686018427387904>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+2 {{expected ::heddle::nn::MemoryKind to be one of: device, host, pinned, file}}
  // expected-error @+1 {{failed to parse NN_MemoryAttr parameter 'value'}}
  plan.state @w at 0 in disk : tensor<8xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.fill' op is on the stream communication, which runs collectives and messages alone; use compute, copy or store}}
    plan.fill %x on communication : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.record' op is on the stream communication}}
    %0 = plan.record communication
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>, %t: memref<0xi8>) attributes {frame_bytes = 0 : i64} {
    %0 = plan.collective all_reduce axes ["data"] target %x source %x staging %t outer 1 for "x" : memref<8xf32>, memref<8xf32>, memref<0xi8>
    // expected-error @+1 {{'plan.wait' op lets the stream copy wait for a collective; compute alone can}}
    plan.wait %0 on copy
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.fill' op is on the stream host, which runs kernels alone; use compute, copy or store}}
    plan.fill %x on host : memref<8xf32>
    plan.end
  }
}
