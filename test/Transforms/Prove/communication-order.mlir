// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// A CPU's messages of one channel do not wait for those of another one.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "G" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    plan.recv %a from -1 on "pipe" channel "G" : memref<16xf32>
    plan.recv %b from -1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// A GPU sends them one after the other.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "G" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; rank 1, at plan.recv, command 0 of @train, waits for rank 0; rank 0, which has to do plan.send, command 0 of @train first, waits for rank 1}}
    plan.recv %a from -1 on "pipe" channel "G" : memref<16xf32>
    plan.recv %b from -1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// But a send does not keep it from receiving, nor from what follows.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.recv %a from 1 on "pipe" channel "B" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    plan.send %x to -1 on "pipe" channel "B" : memref<16xf32>
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// A flush waits for what was sent before on another channel, too.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "G" : memref<16xf32>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; rank 0, at plan.flush, command 2 of @train, waits for rank 0; rank 0, which has to do plan.send, command 0 of @train first, waits for rank 1; rank 1, at plan.recv, command 0 of @train, waits for rank 0}}
    plan.flush channel "G" left 0
    plan.send %x to 1 on "pipe" channel "H" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}, target = "sm_90", communication = {collectives = "library"}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 256 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    plan.recv %a from -1 on "pipe" channel "H" : memref<16xf32>
    plan.recv %b from -1 on "pipe" channel "F" : memref<16xf32>
    plan.recv %a from -1 on "pipe" channel "G" : memref<16xf32>
    plan.end
  }
}
