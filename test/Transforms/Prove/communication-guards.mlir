// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// A transfer that steps skip with a layer: start, wait and reader have the
// layer's condition. A later command uses the same bytes in all steps.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    %t = plan.collective all_reduce axes ["data"] target %y source %x staging %s
      outer 1 for "h.0" {plan.when = @a} : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t {plan.when = @a}
    plan.launch @relu(%y, %z) {plan.when = @a} : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The wait for a collective is executed in steps that do not start it.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    %t = plan.collective all_reduce axes ["data"] target %y source %x staging %s
      outer 1 for "h.0" {plan.when = @a} : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0923: plan.wait, command 1 of @train has another condition than what it waits for}}
    plan.wait %t
    plan.end
  }
}

// -----

// The wait has the condition of another layer.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    %t = plan.collective all_reduce axes ["data"] target %y source %x staging %s
      outer 1 for "h.0" {plan.when = @a} : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0923: plan.wait, command 1 of @train has another condition than what it waits for}}
    plan.wait %t {plan.when = @b}
    plan.end
  }
}

// -----

// The wait is skipped in steps that start the collective.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    %t = plan.collective all_reduce axes ["data"] target %y source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0923: plan.wait, command 1 of @train has another condition than what it waits for}}
    plan.wait %t {plan.when = @a}
    plan.end
  }
}

// -----

// The same for points of streams.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    %r = plan.record compute {plan.when = @a}
    // expected-error @+1 {{H0923: plan.wait, command 1 of @train has another condition than what it waits for}}
    plan.wait %r on copy
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The copy of a layer reads what the layer computes, and the next kernel
// overwrites it after the copy in all steps that copy.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) {plan.when = @a} : (memref<16xf32>, memref<16xf32>) -> ()
    %r = plan.record compute {plan.when = @a}
    plan.wait %r on copy {plan.when = @a}
    plan.copy %p, %y on copy {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %c = plan.record copy {plan.when = @a}
    plan.wait %c {plan.when = @a}
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// Only steps with both layers order the copy before the kernel.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) {plan.when = @a} : (memref<16xf32>, memref<16xf32>) -> ()
    %r = plan.record compute {plan.when = @a}
    plan.wait %r on copy {plan.when = @a}
    // expected-note @+1 {{the other one}}
    plan.copy %p, %y on copy {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %c = plan.record copy
    plan.wait %c {plan.when = @b}
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena, which plan.copy, command 3 of @train still uses}}
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    %e = plan.record copy
    plan.wait %e
    plan.end
  }
}

// -----

// A kernel of the other layer may run in the steps that do not copy.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) {plan.when = @a} : (memref<16xf32>, memref<16xf32>) -> ()
    %r = plan.record compute {plan.when = @a}
    plan.wait %r on copy {plan.when = @a}
    // expected-note @+1 {{the other one}}
    plan.copy %p, %y on copy {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %c = plan.record copy {plan.when = @b}
    plan.wait %c {plan.when = @b}
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena}}
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    %e = plan.record copy
    plan.wait %e
    plan.end
  }
}

// -----

// The order passes through a third stream.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096, pinned 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.condition @a <"h.0", 0.5>
  plan.condition @b <"h.1", 0.5>
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    %p = plan.buffer at 0 in pinned live [0, 99] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) {plan.when = @a} : (memref<16xf32>, memref<16xf32>) -> ()
    %r = plan.record compute {plan.when = @a}
    plan.wait %r on copy {plan.when = @a}
    plan.copy %p, %y on copy {plan.when = @a} : memref<16xf32>, memref<16xf32>
    %c = plan.record copy {plan.when = @a}
    plan.wait %c on store {plan.when = @a}
    %d = plan.record store
    plan.wait %d
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}
