// RUN: heddle-opt %s --split-input-file --prove-communication --verify-diagnostics

// Sent and not received.
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
    // expected-error @+1 {{H0917: message 0 on channel "F" from rank 0 to rank 1 is not received: plan.send, command 0 of @train}}
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
    plan.end
  }
}

// -----

// Received and not sent.
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
    // expected-error @+1 {{H0917: message 0 on channel "F" from rank 0 to rank 1 is not sent: plan.recv, command 0 of @train}}
    plan.recv %a from -1 on "pipe" channel "F" : memref<16xf32>
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
    // expected-error @+1 {{H0917: message 0 on channel "F" from rank 0 to rank 1 is 64 bytes of F32 at plan.send, command 0 of @train, and 32 bytes of F32 at plan.recv, command 0 of @train}}
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
    %h = plan.view %a[0] : memref<16xf32> -> memref<8xf32>
    // expected-note @+1 {{the other one}}
    plan.recv %h from -1 on "pipe" channel "F" : memref<8xf32>
    plan.end
  }
}

// -----

// Another type.
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
    // expected-error @+1 {{H0917: message 0 on channel "F" from rank 0 to rank 1 is 64 bytes of F32 at plan.send, command 0 of @train, and 64 bytes of I32 at plan.recv, command 0 of @train}}
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
    %i = plan.buffer at 512 live [0, 99] owner "activations" : memref<16xi32>
    // expected-note @+1 {{the other one}}
    plan.recv %i from -1 on "pipe" channel "F" : memref<16xi32>
    plan.end
  }
}

// -----

// Another micro-batch.
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
      plan.flush channel "F" left 1
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%x, %0) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0917: message 1 on channel "F" from rank 0 to rank 1 is 64 bytes of F32 at plan.send, command 3 of @train, micro-batch 1, and 64 bytes of F32 at plan.recv, command 1 of @train, micro-batch 2}}
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
    plan.fragments "F0 B0 F2 B2 F1 B1" slots [1, 1] {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
    // expected-note @+1 {{the other one}}
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

// One channel to two ranks.
plan.program @p0 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 3}}>, config = "{}", weights = {},
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
    // expected-error @+1 {{H0917: rank 0 sends on channel "F" to two ranks: a flush would be of one alone}}
    plan.send %x to 2 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

plan.program @p1 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 3}}>, config = "{}", weights = {},
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

plan.program @p2 family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 3}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}, stage = 2 : i64} {
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
    plan.recv %a from -2 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// A stage is missing.
// expected-error @+1 {{H0917: is the last of 1 stages, the mesh has 2}}
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
    plan.end
  }
}

// -----

// expected-error @+1 {{H0917: is the program of stage 1, that of stage 0 is missing}}
plan.program @p0 family "gpt2" phase "memory" attributes {
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

// A step program that another stage does not have.
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
    plan.end
  }
}

// expected-error @+1 {{H0917: has no step program "train", which another stage has}}
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
  plan.sequence @train() attributes {frame_bytes = 1024 : i64, kind = #nn.program<eval>} {
    %x = plan.buffer at 0 live [0, 99] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 99] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [0, 99] owner "activations" : memref<16xf32>
    %s = plan.buffer at 192 live [0, 99] owner "communication" : memref<128xi8>
    plan.end
  }
}
