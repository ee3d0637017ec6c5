// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// Another order.
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
    %w = plan.state_ref @w : memref<16xf32>
    %s2 = plan.buffer at 512 live [0, 99] owner "communication" : memref<128xi8>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-error @+1 {{H0916: collective 0 of a group: rank 0 starts plan.collective, command 0 of @train, rank 1 plan.collective, command 0 of @train, in another shape or for something else}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %w source %w staging %s2
      outer 1 for "h.1" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.wait %u
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
    %w = plan.state_ref @w : memref<16xf32>
    %s2 = plan.buffer at 512 live [0, 99] owner "communication" : memref<128xi8>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.1" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %w source %w staging %s2
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.wait %u
    plan.end
  }
}

// -----

// Another operation.
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
    // expected-error @+1 {{H0916: collective 0 of a group: rank 0 starts plan.collective, command 0 of @train, rank 1 plan.collective, command 0 of @train, in another shape or for something else}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
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
    %t = plan.collective all_to_all axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Another size.
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
    // expected-error @+1 {{H0916: collective 0 of a group: rank 0 starts plan.collective, command 0 of @train, rank 1 plan.collective, command 0 of @train, in another shape or for something else}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
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
    %h = plan.view %x[0] : memref<16xf32> -> memref<8xf32>
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["pipe"] target %h source %h staging %s
      outer 1 for "h.0" : memref<8xf32>, memref<8xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Another type on the wire.
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
    // expected-error @+1 {{H0916: collective 0 of a group: rank 0 starts plan.collective, command 0 of @train, rank 1 plan.collective, command 0 of @train, in another shape or for something else}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
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
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" {wire = bf16} : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Only one stage runs it.
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
    // expected-error @+1 {{H0916: collective 0 of a group: rank 0 starts plan.collective, command 0 of @train, rank 1 none}}
    %t = plan.collective all_reduce axes ["pipe"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
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
    plan.end
  }
}

// -----

// Buffers that do not fit the number of ranks.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 4}, batch = {global = 4}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
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
    %flat = plan.buffer at 512 live [0, 99] owner "activations" : memref<32xf32>
    %r = plan.rank ["data"] : index
    %own = plan.slice %flat[%r] : memref<32xf32> -> memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0916: makes 128 bytes of 64 over 4 ranks along [data]}}
    %t = plan.collective all_gather axes ["data"] target %flat source %a staging %s
      outer 1 for "h.0" : memref<32xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// An axis that is none.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
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
    // expected-error @+1 {{'plan.collective' op names the axis "rows", which the mesh does not have; axes are pipe, data, seq, tensor}}
    %t = plan.collective all_reduce axes ["rows"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Too little staging memory.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
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
    %none = plan.view %s[0] : memref<128xi8> -> memref<0xi8>
    // expected-error @+1 {{H0916: has 0 bytes of staging memory, and needs 64}}
    %t = plan.collective all_reduce axes ["data"] target %x source %x staging %none
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<0xi8>
    plan.wait %t
    plan.end
  }
}
