// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// Both wait until the other one receives.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; rank 0, at plan.flush, command 1 of @train, waits for rank 1; rank 1, at plan.flush, command 1 of @train, waits for rank 0}}
    plan.flush channel "F" left 0
    plan.recv %a from 1 on "pipe" channel "B" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    plan.send %x to -1 on "pipe" channel "B" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    plan.flush channel "B" left 0
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// Both receive first.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; rank 0, at plan.recv, command 0 of @train, waits for rank 1; rank 1, at plan.recv, command 0 of @train, waits for rank 0}}
    plan.recv %a from 1 on "pipe" channel "B" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-note @+1 {{the other one}}
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    plan.send %x to -1 on "pipe" channel "B" : memref<16xf32>
    plan.end
  }
}

// -----

// A collective that one starts after the message that the other sends after it.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; rank 0, at plan.wait, command 1 of @train, waits for rank 1; rank 1, at plan.recv, command 0 of @train, waits for rank 0}}
    plan.wait %t
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-note @+1 {{the other one}}
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// The same, with two ranks in each stage.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2, data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0918: ranks wait for each other for ever; stage 0, at plan.recv, command 0 of @train, waits for stage 1; stage 1, at plan.recv, command 0 of @train, waits for stage 0}}
    plan.recv %a from 1 on "pipe" channel "B" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2, data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.state @saved at 256 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-note @+1 {{the other one}}
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    plan.send %x to -1 on "pipe" channel "B" : memref<16xf32>
    plan.end
  }
}
