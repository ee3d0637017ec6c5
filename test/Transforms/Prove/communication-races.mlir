// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// Written while it is summed.
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
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena, which plan.collective, command 1 of @train still uses}}
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %t
    plan.end
  }
}

// -----

// Read while it is summed.
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
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0919: reads bytes [64, 128) of the arena, which plan.collective, command 1 of @train still uses}}
    plan.launch @relu(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %t
    plan.end
  }
}

// -----

// Another collective in its staging memory.
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
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %a source %a staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    // expected-error @+1 {{H0919: writes bytes [192, 320) of the arena, which plan.collective, command 2 of @train still uses}}
    %u = plan.collective all_reduce axes ["data"] target %b source %b staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.wait %t
    plan.wait %u
    plan.end
  }
}

// -----

// A message that is still on its way.
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
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-note @+1 {{the other one}}
    plan.send %a to 1 on "pipe" channel "F" : memref<16xf32>
    // expected-error @+1 {{H0919: writes bytes [64, 128) of the arena, which plan.send, command 1 of @train still uses}}
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.flush channel "F" left 0
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
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// A flush that leaves too many.
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
    %saved = plan.state_ref @saved : memref<2x16xf32>
    plan.fragments "F0 F1 B0 F2 B1 B2" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      plan.flush channel "F" left 2
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
    // expected-error @+1 {{H0919: writes bytes [256, 320) of the persistent region, which plan.send, command 3 of @train, micro-batch 0 still uses}}
      plan.launch @relu(%x, %0) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-note @+1 {{the other one}}
      plan.send %0 to 1 on "pipe" channel "F" : memref<16xf32>
      plan.end
    }, {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.recv %a from 1 on "pipe" channel "B" : memref<16xf32>
      plan.launch @relu(%0, %b) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }
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
    %saved = plan.state_ref @saved : memref<2x16xf32>
    plan.fragments "F0 B0 F1 B1 F2 B2" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.recv %0 from -1 on "pipe" channel "F" : memref<16xf32>
      plan.end
    }, {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%0, %b) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.send %b to -1 on "pipe" channel "B" : memref<16xf32>
      plan.flush channel "B" left 0
      plan.end
    }
    plan.end
  }
}

// -----

// The part of some rank.
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
    %flat = plan.buffer at 512 live [0, 99] owner "activations" : memref<32xf32>
    %r = plan.rank ["data"] : index
    %own = plan.slice %flat[%r] : memref<32xf32> -> memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.fill %flat : memref<32xf32>
    // expected-note @+1 {{the other one}}
    %t = plan.collective all_reduce axes ["data"] target %own source %own staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    %second = plan.view %flat[16] : memref<32xf32> -> memref<16xf32>
    // expected-error @+1 {{H0919: writes bytes [576, 640) of the arena, which plan.collective, command 2 of @train still uses}}
    plan.launch @relu(%x, %second) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.wait %t
    plan.end
  }
}

// -----

// Nobody waits.
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
    // expected-error @+1 {{H0923: plan.collective, command 0 of @train is started and never waited for}}
    %t = plan.collective all_reduce axes ["data"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.end
  }
}

// -----

// Nobody waits in a loop.
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
    plan.loop 1 {
    ^bb0(%i: index):
    // expected-error @+1 {{H0923: plan.collective, command 1 of @train, micro-batch 0 is started and never waited for}}
    %t = plan.collective all_reduce axes ["data"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    }
    plan.end
  }
}

// -----

// A wait outside of the sequence's own commands.
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
    %t = plan.collective all_reduce axes ["data"] target %x source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<128xi8>
    plan.loop 2 {
    ^bb0(%i: index):
    // expected-error @+1 {{H0923: plan.wait, command 2 of @train, micro-batch 0 waits for what was not started before it in its sequence}}
    plan.wait %t
    }
    plan.end
  }
}
