// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// A value may differ between ranks where what it is made of differs. What lasts,
// the loss and the norm may not.

// The parts of a batch are summed.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.kernel @floats(%x: tensor<1x16xi32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.fill 0.0 : () -> tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>,
      ports = {ids = {whole = tensor<2x16xi32>, sharding = #dist.sharding<[["data"], []], unreduced []>}}} {
    %ids = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<ids>} : memref<1x16xi32>
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %a = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 192 live [0, 99] owner "activations" : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<128xi8>
    plan.launch @floats(%ids, %a) : (memref<1x16xi32>, memref<16xf32>) -> ()
    plan.launch @sum(%a, %b) : (memref<16xf32>, memref<f32>) -> ()
    %t = plan.collective all_reduce axes ["data"] target %b source %b staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<128xi8>
    plan.wait %t
    plan.copy %loss, %b : memref<f32>, memref<f32>
    plan.end
  }
}

// -----

// Over another axis.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.kernel @floats(%x: tensor<1x16xi32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.fill 0.0 : () -> tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>,
      ports = {ids = {whole = tensor<2x16xi32>, sharding = #dist.sharding<[["data"], []], unreduced []>}}} {
    %ids = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<ids>} : memref<1x16xi32>
    // expected-error @+1 {{H0916: the loss may differ between ranks along ["data"]}}
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %a = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 192 live [0, 99] owner "activations" : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<128xi8>
    plan.launch @floats(%ids, %a) : (memref<1x16xi32>, memref<16xf32>) -> ()
    plan.launch @sum(%a, %b) : (memref<16xf32>, memref<f32>) -> ()
    %t = plan.collective all_reduce axes ["tensor"] target %b source %b staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<128xi8>
    plan.wait %t
    plan.copy %loss, %b : memref<f32>, memref<f32>
    plan.end
  }
}

// -----

// The learning rate that a step takes is the same on all ranks, as the loss is.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.kernel @floats(%x: tensor<1x16xi32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.fill 0.0 : () -> tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>,
      ports = {ids = {whole = tensor<2x16xi32>, sharding = #dist.sharding<[["data"], []], unreduced []>}}} {
    %ids = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<ids>} : memref<1x16xi32>
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    // expected-error @+1 {{H0916: the taken_lr may differ between ranks along ["data"]}}
    %lr = plan.buffer at 96 live [0, 99] owner "inputs" {output = #nn.port<taken_lr>} : memref<f32>
    %a = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 192 live [0, 99] owner "activations" : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<128xi8>
    plan.launch @floats(%ids, %a) : (memref<1x16xi32>, memref<16xf32>) -> ()
    plan.launch @sum(%a, %b) : (memref<16xf32>, memref<f32>) -> ()
    plan.copy %lr, %b : memref<f32>, memref<f32>
    %t = plan.collective all_reduce axes ["data"] target %b source %b staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<128xi8>
    plan.wait %t
    plan.copy %loss, %b : memref<f32>, memref<f32>
    plan.end
  }
}

// -----

// Each rank has its own part of a parameter, and gets those of the others.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {role = #nn<role parameter>}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %w = plan.state_ref @w : memref<16xf32>
    %s = plan.buffer at 0 live [0, 99] owner "communication" : memref<256xi8>
    %r = plan.rank ["data"] : index
    %mine = plan.slice %w[%r] : memref<16xf32> -> memref<8xf32>
    %t = plan.collective all_gather axes ["data"] target %w source %mine staging %s
      outer 1 for "w" : memref<16xf32>, memref<8xf32>, memref<256xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// Those of others than have the parts.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2, tensor = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {role = #nn<role parameter>}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %w = plan.state_ref @w : memref<16xf32>
    %s = plan.buffer at 0 live [0, 99] owner "communication" : memref<256xi8>
    %r = plan.rank ["data"] : index
    %mine = plan.slice %w[%r] : memref<16xf32> -> memref<8xf32>
    // expected-error @+1 {{H0916: may leave other bytes of @w on each of the ranks along ["data"]}}
    %t = plan.collective all_gather axes ["tensor"] target %w source %mine staging %s
      outer 1 for "w" : memref<16xf32>, memref<8xf32>, memref<256xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// All stages have the same loss.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @a at 0 : tensor<f32> {like = {}}
  plan.state @b at 64 : tensor<f32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %lr = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<lr>} : memref<f32>
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %norm = plan.buffer at 128 live [0, 99] owner "inputs" {output = #nn.port<grad_norm>} : memref<f32>
    %a = plan.state_ref @a : memref<f32>
    %b = plan.state_ref @b : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<64xi8>
    %s2 = plan.buffer at 320 live [0, 99] owner "communication" : memref<64xi8>
    %t = plan.collective all_reduce axes ["pipe"] target %a source %a staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<64xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %b source %b staging %s2
      outer 1 for "grad_norm" : memref<f32>, memref<f32>, memref<64xi8>
    plan.wait %t
    plan.wait %u
    plan.copy %loss, %a : memref<f32>, memref<f32>
    plan.copy %norm, %b : memref<f32>, memref<f32>
    plan.end
  }
}
plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @a at 0 : tensor<f32> {like = {}}
  plan.state @b at 64 : tensor<f32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %lr = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<lr>} : memref<f32>
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %norm = plan.buffer at 128 live [0, 99] owner "inputs" {output = #nn.port<grad_norm>} : memref<f32>
    %a = plan.state_ref @a : memref<f32>
    %b = plan.state_ref @b : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<64xi8>
    %s2 = plan.buffer at 320 live [0, 99] owner "communication" : memref<64xi8>
    %t = plan.collective all_reduce axes ["pipe"] target %a source %a staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<64xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %b source %b staging %s2
      outer 1 for "grad_norm" : memref<f32>, memref<f32>, memref<64xi8>
    plan.wait %t
    plan.wait %u
    plan.copy %loss, %a : memref<f32>, memref<f32>
    plan.copy %norm, %b : memref<f32>, memref<f32>
    plan.end
  }
}

// -----

// The second stage gives another number for it.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 0 : i64} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @a at 0 : tensor<f32> {like = {}}
  plan.state @b at 64 : tensor<f32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %lr = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<lr>} : memref<f32>
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %norm = plan.buffer at 128 live [0, 99] owner "inputs" {output = #nn.port<grad_norm>} : memref<f32>
    %a = plan.state_ref @a : memref<f32>
    %b = plan.state_ref @b : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<64xi8>
    %s2 = plan.buffer at 320 live [0, 99] owner "communication" : memref<64xi8>
    %t = plan.collective all_reduce axes ["pipe"] target %a source %a staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<64xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %b source %b staging %s2
      outer 1 for "grad_norm" : memref<f32>, memref<f32>, memref<64xi8>
    plan.wait %t
    plan.wait %u
    plan.copy %loss, %a : memref<f32>, memref<f32>
    plan.copy %norm, %b : memref<f32>, memref<f32>
    plan.end
  }
}
plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 1 : i64} {
  plan.kernel @sum(%x: tensor<16xf32>) -> tensor<f32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.sum %x : (tensor<16xf32>) -> tensor<f32>
    plan.yield %0 : tensor<f32>
  }
  plan.state @a at 0 : tensor<f32> {like = {}}
  plan.state @b at 64 : tensor<f32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<train>} {
    %lr = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<lr>} : memref<f32>
    // expected-error @+1 {{H0916: the loss may differ between stages}}
    %loss = plan.buffer at 64 live [0, 99] owner "inputs" {output = #nn.port<loss>} : memref<f32>
    %norm = plan.buffer at 128 live [0, 99] owner "inputs" {output = #nn.port<grad_norm>} : memref<f32>
    %a = plan.state_ref @a : memref<f32>
    %b = plan.state_ref @b : memref<f32>
    %s = plan.buffer at 256 live [0, 99] owner "communication" : memref<64xi8>
    %s2 = plan.buffer at 320 live [0, 99] owner "communication" : memref<64xi8>
    %t = plan.collective all_reduce axes ["pipe"] target %a source %a staging %s
      outer 1 for "loss" : memref<f32>, memref<f32>, memref<64xi8>
    %u = plan.collective all_reduce axes ["pipe"] target %b source %b staging %s2
      outer 1 for "grad_norm" : memref<f32>, memref<f32>, memref<64xi8>
    plan.wait %t
    plan.wait %u
    plan.copy %loss, %b : memref<f32>, memref<f32>
    plan.copy %norm, %b : memref<f32>, memref<f32>
    plan.end
  }
}
