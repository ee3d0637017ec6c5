// RUN: heddle-opt %s --split-input-file --memory-verify --verify-diagnostics

// Bytes are used again, and a callee has a frame of its own: nothing is wrong.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @w at 0 : tensor<1024xf32> {like = {}}
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
    %x = plan.buffer at 0 live [0, 3] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
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

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0913: bytes [0, 128) are shared with another buffer that is in use at the same command}}
  plan.state @v at 0 : tensor<32xf32> {like = {}}
  // expected-note @+1 {{the other one}}
  plan.state @w at 64 : tensor<16xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0913: bytes [4032, 4160) leave the persistent region of 4096 bytes}}
  plan.state @v at 4032 : tensor<32xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0913: offset 32 is not a multiple of 64}}
  plan.state @v at 32 : tensor<32xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // expected-error @+1 {{H0913: bytes [0, 8192) leave the persistent region of 4096 bytes}}
    %w = plan.state_ref @w : memref<2048xf32>
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
    // expected-error @+1 {{H0913: bytes [0, 64) are shared with another buffer that is in use at the same command}}
    %x = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    // expected-note @+1 {{the other one}}
    %y = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
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
    %x = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    // expected-error @+1 {{H0913: bytes [224, 288) leave the frame of 256 bytes}}
    %y = plan.buffer at 224 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
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
    %x = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    // expected-error @+1 {{H0913: offset 96 is not a multiple of 64}}
    %y = plan.buffer at 96 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// Kernels read and write parts; a message, or what fills a gap, may begin anywhere.
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
    %flat = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<36xf32>
    %gap = plan.view %flat[33] : memref<36xf32> -> memref<3xf32>
    %x = plan.view %flat[0] : memref<36xf32> -> memref<16xf32>
    // expected-error @+1 {{H0913: begins at byte 68 of its buffer, which is not a multiple of 64}}
    %y = plan.view %flat[17] : memref<36xf32> -> memref<16xf32>
    plan.fill %gap : memref<3xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
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
    %x = plan.buffer at 0 live [0, 3] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    %z = plan.buffer at 128 live [1, 1] owner "activations" : memref<16xf32>
    %u = plan.buffer at 192 live [2, 2] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%y, %z) : (memref<16xf32>, memref<16xf32>) -> ()
    // expected-error @+1 {{H0913: command 2 uses a buffer that is live in [0, 1]}}
    plan.launch @relu(%y, %u) : (memref<16xf32>, memref<16xf32>) -> ()
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
    %x = plan.buffer at 0 live [0, 3] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [1, 1] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0913: command 0 uses a buffer that is live in [1, 1]}}
    plan.launch @relu(%x, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
}

// -----

// A slice is its source.
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
    %x = plan.buffer at 0 live [0, 0] owner "activations" {output = #nn.port<value, "x">} : memref<2x16xf32>
    %y = plan.buffer at 128 live [0, 2] owner "activations" : memref<16xf32>
    plan.loop 2 {
    ^bb0(%i: index):
      %s = plan.slice %x[%i] : memref<2x16xf32> -> memref<16xf32>
      // expected-error @+1 {{H0913: command 1 uses a buffer that is live in [0, 0]}}
      plan.launch @relu(%s, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    }
    plan.end
  }
}

// -----

// A callee's frame.
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
    %x = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    // expected-error @+1 {{H0913: bytes [64, 128) are shared with another buffer that is in use at the same command}}
    %y = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    // expected-note @+1 {{the other one}}
    plan.call @layer(%x, %y) frame 64 path "h.0" : memref<16xf32>, memref<16xf32>
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
  plan.sequence @layer(%x: memref<16xf32>, %y: memref<16xf32>) attributes {frame_bytes = 64 : i64} {
    %t = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    plan.launch @relu(%x, %t) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.launch @relu(%t, %y) : (memref<16xf32>, memref<16xf32>) -> ()
    plan.end
  }
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 1] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0913: bytes [256, 320) leave the frame of 256 bytes}}
    plan.call @layer(%x, %y) frame 256 path "h.0" : memref<16xf32>, memref<16xf32>
    plan.end
  }
}

// -----

// expected-error @+1 {{H0913: scratch begins at 192, inside the frames of 256 bytes}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 192 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    plan.end
  }
}

// -----

// expected-error @+1 {{H0913: scratch begins at 257, which is no multiple of 64}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 257 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    plan.end
  }
}

// -----

// expected-error @+1 {{H0913: the arena has 4096 bytes, frames and scratch need 4352}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 2048 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 64 : i64, owners = {}} {
  // expected-error @+1 {{H0913: needs 128 bytes of scratch, there are 64}}
  plan.kernel @relu(%x: tensor<16xf32>) -> tensor<16xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>,
                  scratch_bytes = 128 : i64} {
    %0 = nn.map relu(%x) : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @a(%i: index) attributes {frame_bytes = 0 : i64} {
    plan.call @b(%i) frame 0 path "b" : index
    plan.end
  }
  plan.sequence @b(%i: index) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{H0913: is in a circle of calls: @a calls itself}}
    plan.call @a(%i) frame 0 path "a" : index
    plan.end
  }
}

// -----

// What a collective uses is in use until its wait.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 2] owner "activations" {output = #nn.port<value, "x">} : memref<16xf32>
    %y = plan.buffer at 64 live [0, 2] owner "activations" : memref<16xf32>
    %s = plan.buffer at 128 live [0, 0] owner "communication" : memref<64xi8>
    %t = plan.collective all_reduce axes ["data"] target %y source %x staging %s
      outer 1 for "h.0" : memref<16xf32>, memref<16xf32>, memref<64xi8>
    // expected-error @+1 {{H0913: command 1 uses a buffer that is live in [0, 0]}}
    plan.wait %t
    plan.end
  }
}

// -----

// What is sent is in use until the flush that leaves fewer.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 1] owner "activations" : memref<16xf32>
    %y = plan.buffer at 64 live [0, 3] owner "activations" : memref<16xf32>
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.send %y to 1 on "pipe" channel "F" : memref<16xf32>
    // expected-error @+1 {{H0913: command 2 uses a buffer that is live in [0, 1]}}
    plan.flush channel "F" left 1
    plan.flush channel "F" left 0
    plan.end
  }
}

// -----

// Without a flush, until the step's end.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    %y = plan.buffer at 64 live [1, 1] owner "activations" : memref<16xf32>
    // expected-error @+1 {{H0913: command 1 uses a buffer that is live in [0, 0]}}
    plan.send %x to 1 on "pipe" channel "F" : memref<16xf32>
    plan.fill %y : memref<16xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{attribute 'kind' failed to satisfy constraint: the kind of a step program}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = "trian"} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    plan.loop 2 {
    ^bb0(%i: index):
      // expected-error @+1 {{H0913: is no command of a plan inside of another}}
      %y = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
      plan.fill %y : memref<16xf32>
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.state' op has 'tensor<8xf32>', which is no rank's part of 'tensor<24xf32>' split by}}
  plan.state @w at 0 : tensor<8xf32> {like = {
      whole = tensor<24xf32>, storage = #dist.sharding<[["data"]], unreduced []>}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0913: is 'tensor<64xf32>' on each of 2 ranks, which is no part of 192 elements}}
  plan.flat @f at 0 : tensor<64xf32> of 192 over ["data"]
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.sequence' op splits the port "idz", which is not there}}
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>,
      ports = {idz = {whole = tensor<2x8xi32>, sharding = #dist.sharding<[["data"], []], unreduced []>}}} {
    %x = plan.buffer at 0 live [0, 0] owner "inputs" {input = #nn.port<ids>} : memref<1x8xi32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // expected-error @+1 {{H0913: bytes [9223372036854775744, 9223372036854775808) leave the frame of 256 bytes}}
    %x = plan.buffer at 9223372036854775744 live [0, 0] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    // expected-error @+1 {{H0913: is the port "lr", which is no 'memref<4xi32>'}}
    %0 = plan.buffer at 0 live [0, 0] owner "inputs and outputs" {input = #nn.port<lr>} : memref<4xi32>
    plan.end
  }
}

// -----

// The second run of the loop reads %x again: %z may not take its bytes.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 2] owner "activations" : memref<16xf32>
    %y = plan.buffer at 64 live [2, 2] owner "activations" : memref<16xf32>
    %z = plan.buffer at 0 live [3, 3] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    // expected-error @+2 {{H0913: command 3 uses a buffer that is live in [0, 2]}}
    // expected-note @+1 {{its commands run again, with what they and those around them left there}}
    plan.loop 2 {
    ^bb0(%i: index):
      plan.copy %y, %x : memref<16xf32>, memref<16xf32>
      plan.fill %z : memref<16xf32>
    }
    plan.end
  }
}

// -----

// What a loop uses alone may share its bytes with what comes before and after,
// and with what the same run of the loop uses then.
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{threads = 2}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 256 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 0] owner "activations" : memref<16xf32>
    %y = plan.buffer at 0 live [2, 3] owner "activations" : memref<16xf32>
    %z = plan.buffer at 64 live [3, 4] owner "activations" : memref<16xf32>
    %w = plan.buffer at 0 live [4, 4] owner "activations" : memref<16xf32>
    plan.fill %x : memref<16xf32>
    plan.loop 2 {
    ^bb0(%i: index):
      plan.fill %y : memref<16xf32>
      plan.copy %z, %y : memref<16xf32>, memref<16xf32>
      plan.copy %w, %z : memref<16xf32>, memref<16xf32>
    }
    plan.end
  }
}

// -----

// expected-error @+1 {{H0913: copies go through 16777216 bytes of pinned memory, staging_bytes are 8388608}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{target = sm_90}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096, file 4096>, files = {gradients = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    staging_bytes = 8388608 : i64, scratch_offset = 0 : i64,
    scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{H0913: files have 4096 bytes, the persistent region on file has 8192}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 8192>, files = {parameters = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{H0913: the file of role gradients has 8192 bytes: no whole pages, or more than the persistent region}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 8192>,
    files = {optimizer = 4096, gradients = 8192}, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{H0913: the file of role optimizer has 100 bytes: no whole pages, or more than the persistent region}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>,
    files = {optimizer = 100, gradients = 3996}, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 12288>,
    files = {optimizer = 4096, parameters = 8192}, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @a at 0 in file : tensor<16xf32> {like = {}}
  // expected-error @+1 {{H0913: bytes [64, 8064) leave the file of role optimizer, which ends at 4096}}
  plan.state @b at 64 in file : tensor<2000xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>,
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 1024 : i64, scratch_bytes_per_thread = 64 : i64, owners = {}} {
  plan.sequence @train() attributes {frame_bytes = 256 : i64, kind = #nn.program<train>} {
    %x = plan.buffer at 0 live [0, 9] owner "activations" {input = #nn.port<value, "x">} : memref<64xf32>
    %c2 = arith.constant 2 : index
    plan.loop 2 {
    ^bb0(%i: index):
      plan.loop 2 {
      ^bb0(%j: index):
        %twice = arith.muli %c2, %j : index
        // expected-error @+1 {{H0913: multiplies two indices that change; one of them has to be a constant}}
        %both = arith.muli %i, %twice : index
        %part = plan.slice %x[%both] : memref<64xf32> -> memref<16xf32>
      }
    }
    plan.end
  }
}
