// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// A copy runs beside a kernel that reads the same bytes.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.launch @relu(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %copied
    plan.launch @relu(%b, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The kernel overwrites what the copy still reads.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-note @+1 {{the other one}}
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena, which plan.copy, command 3 of @train still uses}}
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %copied
    plan.end
  }
}

// -----

// With the wait before it, it may.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The copy does not wait for the kernel that makes its bytes: only for what was
// before that.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    // expected-note @+1 {{the other one}}
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %ready on copy
    // expected-error @+1 {{H0919: reads bytes [64, 128) of the arena, which plan.launch, command 2 of @train still uses}}
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

// The point must be behind the kernel.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

// Two copies are in order: they are of one stream.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    plan.copy %b, %p on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.launch @relu(%b, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A point before the copy says nothing of it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    %copied = plan.record copy
    // expected-note @+1 {{the other one}}
    plan.copy %b, %a on copy : memref<16xf32>, memref<16xf32>
    plan.wait %copied
    // expected-error @+1 {{H0919: reads bytes [128, 192) of the arena, which plan.copy, command 4 of @train still uses}}
    plan.launch @relu(%b, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %all = plan.record copy
    plan.wait %all
    plan.end
  }
}

// -----

// Nobody waits for the copy.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-error @+1 {{H0923: plan.copy, command 3 of @train is started and never waited for}}
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    plan.end
  }
}

// -----

// What is summed is not copied meanwhile.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0919: reads bytes [64, 128) of the arena, which plan.collective, command 3 of @train still uses}}
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.wait %t
    plan.end
  }
}

// -----

// Nor after compute has waited for the sum, unless copy waits for compute.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on copy
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    // expected-error @+1 {{H0919: reads bytes [64, 128) of the arena, which plan.collective, command 3 of @train still uses}}
    plan.copy %p, %a on copy : memref<16xf32>, memref<16xf32>
    %copied = plan.record copy
    plan.wait %copied
    plan.end
  }
}

// -----

// What is stored comes back on another stream, which does not wait for it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    // expected-note @+1 {{the other one}}
    plan.copy %p, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store
    plan.wait %ready on copy
    // expected-error @+1 {{H0919: reads bytes}}
    plan.copy %b, %p on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.wait %stored
    plan.end
  }
}

// -----

// With the wait before it, it may; whoever waits for the fetch waits for both.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    %ready = plan.record compute
    plan.wait %ready on store
    plan.copy %p, %a on store : memref<16xf32>, memref<16xf32>
    %stored = plan.record store
    plan.wait %stored on copy
    plan.copy %b, %p on copy : memref<16xf32>, memref<16xf32>
    %fetched = plan.record copy
    plan.wait %fetched
    plan.launch @relu(%b, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}
