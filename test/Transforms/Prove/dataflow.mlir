// RUN: heddle-opt %s --split-input-file --prove-dataflow --verify-diagnostics

// Nothing is wrong.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @layer(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 64 : i64} {
    %t = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%t, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [1, 2] owner "activations" : memref<16xf32>
    %c = plan.buffer at 64 live [2, 3] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.call @layer(%a, %b) frame 192 path "h.0" : memref<16xf32>, memref<16xf32>
    plan.launch @relu(%b, %c) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// Read before it is written.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %a = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    %b = plan.buffer at 64 live [0, 0] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [0, 64) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%a, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// Overwritten by another buffer that stands at the same bytes.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %b = plan.buffer at 64 live [1, 1] owner "activations" : memref<16xf32>
    %d = plan.buffer at 192 live [2, 2] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%a, %d) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// Partly.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %b = plan.buffer at 96 live [1, 1] owner "activations" : memref<16xf32>
    %d = plan.buffer at 192 live [2, 2] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%a, %d) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A callee's frame stands on a buffer that is still to be read.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @layer(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 64 : i64} {
    %t = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%t, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 2] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %b = plan.buffer at 128 live [1, 1] owner "activations" : memref<16xf32>
    %d = plan.buffer at 192 live [2, 2] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.call @layer(%x, %b) frame 64 path "h.0" : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%a, %d) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A callee that does not write what it is given for its result.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 2] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %d = plan.buffer at 128 live [2, 2] owner "activations" : memref<16xf32>
    plan.call @lazy(%x, %y) frame 192 path "h.0" : memref<16xf32>, memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.launch @relu(%y, %d) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @lazy(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 64 : i64} {
    plan.end
  }
}

// -----

// Right in the first iteration, wrong in the second.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %a = plan.buffer at 64 live [0, 3] owner "activations" : memref<16xf32>
    %b = plan.buffer at 64 live [2, 3] owner "activations" : memref<16xf32>
    %d = plan.buffer at 128 live [2, 3] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.loop 2 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
      plan.launch @relu(%a, %d) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.launch @relu(%x, %b) : (memref<16xf32>, memref<16xf32>) -> ()
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %a = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    %b = plan.buffer at 64 live [0, 0] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0914: operand 1 is read, but its bytes [0, 64) were not written, or were overwritten by another buffer}}
    plan.copy %b, %a : memref<16xf32>, memref<16xf32>
    plan.end
  }
}

// -----

// States hold what earlier steps left.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %w = plan.state_ref @w : memref<16xf32>
    %a = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    plan.launch @relu(%w, %a) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A packed value is there once all of its parts are: made in place, filled, received.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    plan.launch @relu(%x, %first) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.fill %second : memref<16xf32>
    %t = plan.collective all_reduce axes ["data"] target %p source %p staging %s
      outer 1 for "h.0" : memref<32xf32>, memref<32xf32>, memref<64xi8>
    plan.wait %t
    plan.recv %y from -1 on "pipe" channel "F" : memref<16xf32>
    plan.launch @relu(%second, %first) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.send %y to 1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// A part is missing.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    plan.launch @relu(%x, %first) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0914: operand 1 is read, but its bytes [128, 256) were not written, or were overwritten by another buffer}}
    %t = plan.collective all_reduce axes ["data"] target %p source %p staging %s
      outer 1 for "h.0" : memref<32xf32>, memref<32xf32>, memref<64xi8>
    plan.wait %t
    plan.end
  }
}

// -----

// What is sent was written.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is read, but its bytes [64, 128) were not written, or were overwritten by another buffer}}
    plan.send %y to 1 on "pipe" channel "F" : memref<16xf32>
    plan.end
  }
}

// -----

// Slots come round again when their micro-batch is done.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    %saved = plan.state_ref @saved : memref<2x16xf32>
    plan.fragments "F0 F1 B0 F2 B1 F3 B2 B3" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%x, %0) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }, {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%0, %y) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }
    plan.end
  }
}

// -----

// Too early.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    %saved = plan.state_ref @saved : memref<2x16xf32>
    plan.fragments "F0 F1 F2 B0 B1 B2" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%x, %0) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }, {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      // expected-error @+1 {{H0914: operand 0 is read, but its bytes [0, 64) do not hold what micro-batch 0 left in that slot}}
      plan.launch @relu(%0, %y) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }
    plan.end
  }
}

// -----

// A slot that is not there.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    %saved = plan.state_ref @saved : memref<2x16xf32>
    plan.fragments "F0 F1 F2 B0 B1 B2" slots [3, 3] {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      // expected-error @+1 {{H0913: operand 1 has the bytes [128, 192), its buffer [0, 128)}}
      plan.launch @relu(%x, %0) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }, {
    ^bb0(%i: index, %slot: index):
      %0 = plan.slice %saved[%slot] : memref<2x16xf32> -> memref<16xf32>
      plan.launch @relu(%0, %y) : (memref<16xf32>, memref<16xf32>) -> ()
      plan.end
    }
    plan.end
  }
}

// -----

// A part that the iteration chooses: all of it must be there.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    plan.loop 2 {
    ^bb0(%i: index):
      %part = plan.slice %p[%i] : memref<32xf32> -> memref<16xf32>
      // expected-error @+1 {{H0914: operand 0 is read, but its bytes [128, 256) were not written, or were overwritten by another buffer}}
      plan.launch @relu(%part, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    plan.launch @relu(%x, %first) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%x, %second) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.loop 2 {
    ^bb0(%i: index):
      %part = plan.slice %p[%i] : memref<32xf32> -> memref<16xf32>
      plan.launch @relu(%part, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    }
    plan.end
  }
}

// -----

// A number that is not known when the plan is loaded.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    plan.loop 2 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0913: is no sum of multiples of numbers that are known when a plan is loaded}}
      %square = arith.muli %i, %i : index
      %part = plan.slice %p[%square] : memref<32xf32> -> memref<16xf32>
    }
    plan.end
  }
}

// -----

// Bytes that are no buffer's.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @saved at 0 : tensor<2x16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "inputs" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 9] owner "activations" : memref<16xf32>
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<32xf32>
    %s = plan.buffer at 256 live [0, 9] owner "communication" : memref<64xi8>
    %first = plan.view %p[0] : memref<32xf32> -> memref<16xf32>
    %second = plan.view %p[16] : memref<32xf32> -> memref<16xf32>
    // expected-error @+1 {{H0913: is no buffer of a plan}}
    %other = memref.alloc() : memref<16xf32>
    plan.end
  }
}

// -----

// Numbers that no buffer can hold do not wrap around, and come back as others.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<2x16xf32>
    %n = arith.constant 4611686018427387904 : index
    %m = arith.constant 4 : index
    %zero = arith.muli %n, %m : index
    %part = plan.slice %p[%zero] : memref<2x16xf32> -> memref<16xf32>
    // expected-error @+1 {{H0913: operand 0 has the bytes}}
    plan.fill %part : memref<16xf32>
    plan.end
  }
}

// -----

// Loops in loops.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 512 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @long(%x: memref<16xf32>) attributes {frame_bytes = 0 : i64} {
    plan.loop 1048576 {
    ^bb0(%i: index):
      plan.loop 1048576 {
      ^bb0(%j: index):
        // expected-error @+1 {{H0913: a step runs more than 16777216 commands and definitions}}
        plan.fill %x : memref<16xf32>
      }
    }
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 512 : i64, kind = #nn.program<train>} {
    %p = plan.buffer at 128 live [0, 9] owner "activations" : memref<16xf32>
    plan.call @long(%p) frame 256 path "h.0" : memref<16xf32>
    plan.end
  }
}

// -----

// A gradient that nothing clears: its bucket is written in part.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @v.grad at 0 : tensor<16xf32> {like = {role = #nn<role gradient>, parameter = "v"}}
  plan.state @w.grad at 64 : tensor<16xf32> {like = {role = #nn<role gradient>, parameter = "w"}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %v = plan.state_ref @v.grad : memref<16xf32>
    %w = plan.state_ref @w.grad : memref<16xf32>
    plan.fill %v : memref<16xf32>
    plan.launch @add(%v, %x) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0914: operand 0 is read, but this step has not written all of its bytes [64, 128): they are those of @w.grad}}
    plan.launch @add(%w, %x) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A parameter that a kernel writes which is no optimizer's.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w at 64 : tensor<16xf32> {like = {role = #nn<role parameter>}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %w = plan.state_ref @w : memref<16xf32>
    // expected-error @+1 {{H0914: operand 0 is written, which holds @w: the optimizer alone writes that}}
    plan.launch @add(%w, %x) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// The average of a gradient in the place of what is kept for a micro-batch.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %0 = nn.add %x, %y : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.state @w.exp_avg at 64 : tensor<1x16xf32> {like = {role = #nn<role optimizer>, parameter = "w"}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 3] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %w = plan.state_ref @w.exp_avg : memref<1x16xf32>
    plan.fragments "F0" slots [1] {
    ^bb0(%i: index, %slot: index):
      %s = plan.slice %w[%slot] : memref<1x16xf32> -> memref<16xf32>
      // expected-error @+1 {{H0914: operand 0 is a slot of @w.exp_avg, which has none}}
      plan.copy %s, %x : memref<16xf32>, memref<16xf32>
      plan.end
    }
    plan.end
  }
}

// -----

// An output that nobody has written when the step is over.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" {input = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 1] owner "activations" {output = #nn.port<value, "y">} : memref<16xf32>
    // expected-error @+1 {{H0914: is an output, but its bytes [128, 192) were not written, or were overwritten by another buffer}}
    %z = plan.buffer at 128 live [0, 1] owner "activations" {output = #nn.port<value, "z">} : memref<16xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}
