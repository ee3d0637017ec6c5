// RUN: heddle-opt %s --split-input-file --verify-diagnostics

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.state' op has elements of type 'i4'; known are f64, f32, bf16, f16, i8, i32 and i64}}
  plan.state @s at 0 : tensor<4xi4> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op takes or gives 'tensor<8xi4>'}}
  plan.kernel @k(%x: tensor<8xi4>) -> tensor<8xi4>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xi4>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>, %t: memref<0xi8>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+2 {{expected ::heddle::planir::CollectiveKind to be one of: all_reduce, reduce_scatter, all_gather, all_to_all, rotate}}
    // expected-error @+1 {{failed to parse Plan_CollectiveKindAttr parameter 'value'}}
    %0 = plan.collective all_sum axes ["data"] target %x source %x staging %t outer 1 for "x" : memref<8xf32>, memref<8xf32>, memref<0xi8>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 64 : i64} {
    // expected-error @+1 {{'plan.buffer' op result #0 must be statically shaped memref of}}
    %0 = plan.buffer at 0 live [0, 1] owner "x" : memref<8xi4>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>,
                  // expected-error @+1 {{a launch has three sizes of 1 or more each for its grid, block and cluster}}
                  launches = [#plan.grid_launch<"k", grid = [4, 1, 1], block = [32, 1, 1], cluster = [2, 1]>]} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>,
                  // expected-error @+1 {{a cluster has 8 blocks at most, and its sizes divide the grid's}}
                  launches = [#plan.grid_launch<"k", grid = [16, 1, 1], block = [32, 1, 1], cluster = [16, 1, 1]>]} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op has ties for 0 results of 1}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64>} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op ties result 0 to argument 1 of 1}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 1>} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op ties result 0 to argument -2 of 1}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -2>} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op ties result 0 of type 'tensor<4xf32>' to an argument of type 'tensor<8xf32>'}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<4xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
    %y = nn.fill 0.0 : () -> tensor<4xf32>
    plan.yield %y : tensor<4xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op must yield values of types 'tensor<8xf32>'}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.yield' op expects parent op 'plan.kernel'}}
  plan.yield
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op launches unknown kernel @none}}
    plan.launch @none(%i) : (index) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xf32>
  }
  plan.sequence @s(%x: memref<8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op passes 1 operands to kernel @k, which takes 1 and 1 results}}
    plan.launch @k(%x) : (memref<8xf32>) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xf32>
  }
  plan.sequence @s(%x: memref<8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op does not fit the type of kernel @k}}
    plan.launch @k(%i) : (index) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xf32>
  }
  plan.sequence @s(%x: memref<4xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op passes 'memref<4xf32>' as operand 0 to kernel @k, which takes 'memref<8xf32>'}}
    plan.launch @k(%x, %x) : (memref<4xf32>, memref<4xf32>) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8, 8>} {
    plan.yield %x : tensor<4x7xf32>
  }
  plan.sequence @s(%x: memref<4x7xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op passes 'memref<4x7xf32>' as operand 0 to kernel @k, which takes 'memref<4x7xf32, strided<[8, 1]>>'}}
    plan.launch @k(%x, %x) : (memref<4x7xf32>, memref<4x7xf32>) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op has leading dimensions of 1 operands of 2}}
  plan.kernel @k(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8>} {
    plan.yield %x : tensor<4x7xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op cannot have 'tensor<4x7xf32>' in rows that begin 6 elements apart}}
  plan.kernel @k(%x: tensor<4x7xf32>) -> tensor<4x7xf32>
      attributes {generator = #plan.generator<rows>, ties = array<i64: -1>, leading_dimensions = array<i64: 8, 6>} {
    plan.yield %x : tensor<4x7xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<4x7xf32>) attributes {frame_bytes = 256 : i64} {
    %0 = plan.buffer at 0 live [0, 0] owner "activations" : memref<4x7xf32, strided<[8, 1]>>
    // expected-error-re @+1 {{'plan.copy' op operand #1 must be statically shaped memref of {{.*}} values without gaps, but got 'memref<4x7xf32, strided<[8, 1]>>'}}
    plan.copy %x, %0 : memref<4x7xf32>, memref<4x7xf32, strided<[8, 1]>>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 256 : i64} {
    // expected-error-re @+1 {{'plan.buffer' op result #0 must be statically shaped memref of {{.*}} values by rows, but got 'memref<4x7xf32, strided<[1, 8]>>'}}
    %0 = plan.buffer at 0 live [0, 0] owner "activations" : memref<4x7xf32, strided<[1, 8]>>
    plan.end
  }
}

// -----

// expected-error @+1 {{'plan.program' op persistent_bytes is negative: -64}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device -64>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{'plan.program' op arena_bytes is negative: -64}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device -64>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{'plan.program' op scratch_offset is negative: -64}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = -64 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{'plan.program' op scratch_bytes_per_thread is negative: -64}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = -64 : i64, owners = {}} {
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.state' op needs a static tensor type, got 'memref<8xf32>'}}
  plan.state @w at 0 : memref<8xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.state' op offset is negative: -64}}
  plan.state @w at -64 : tensor<8xf32> {like = {}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.state_ref' op refers to unknown state @w}}
    %0 = plan.state_ref @w : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @w at 0 : tensor<8xi8> {like = {}}
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.state_ref' op has type 'memref<8xf32>', and @w has type 'tensor<8xi8>'}}
    %0 = plan.state_ref @w : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.state @w at 0 : tensor<16xf32> {like = {}}
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.state_ref' op has type 'memref<8xf32>', and @w has type 'tensor<16xf32>'}}
    %0 = plan.state_ref @w : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.flat @f at 0 : tensor<64xf32> of 128 over ["data"]
  plan.state @w at 64 : tensor<8xf32> {like = {}, flat = @f}
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.state_ref' op refers to @w, of which a rank has what its part of @f has: refer to that}}
    %0 = plan.state_ref @w : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.buffer' op lives in [3, 2], which is no range of commands}}
    %0 = plan.buffer at 0 live [3, 2] owner "x" : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.buffer' op lives in [-1, 2], which is no range of commands}}
    %0 = plan.buffer at 0 live [-1, 2] owner "x" : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.buffer' op offset is negative: -64}}
    %0 = plan.buffer at -64 live [0, 2] owner "x" : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.buffer' op result #0 must be statically shaped memref of 64-bit float or 32-bit float or bfloat16 type or 16-bit float or 8-bit signless integer or 32-bit signless integer or 64-bit signless integer values by rows, but got 'memref<?xf32>'}}
    %0 = plan.buffer at 0 live [0, 2] owner "x" : memref<?xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.slice' op gives 'memref<4xf32>', but a slice of 'memref<2x8xf32>' along its first dimension has its other dimensions}}
    %0 = plan.slice %x[%i] : memref<2x8xf32> -> memref<4xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.loop' op runs 0 times; 1 to 1048576 are possible}}
    plan.loop 0 {
    ^bb0(%j: index):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.loop' op needs one argument of type index}}
    plan.loop 2 {
    ^bb0(%j: i64):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.copy' op copies 'memref<2x8xf32>' to 'memref<8xf32>'}}
    plan.copy %y, %x : memref<8xf32>, memref<2x8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @t(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.call' op has the unknown condition @c}}
    plan.call @t(%x) frame 0 path "t" {plan.when = @c} : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.condition @c <"h.1", 0.5>
  plan.sequence @t(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.call' op has the condition of another layer, h.1}}
    plan.call @t(%x) frame 0 path "h.0" {plan.when = @c} : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @t(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.call' op has both plan.when and plan.unless}}
    plan.call @t(%x) frame 0 path "t" {plan.unless = @c, plan.when = @c} : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @t(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.rank' op is no command, so it cannot have "plan.when"}}
    %r = plan.rank ["data"] {plan.when = @c} : index
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @t(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.call' op has the unknown attribute "plan.whenever"}}
    plan.call @t(%x) frame 0 path "t" {plan.whenever = @c} : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>, %y: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.copy' op has the unknown condition @c}}
    plan.copy %x, %y {plan.unless = @c} : memref<8xf32>, memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %i: index) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.call' op runs unknown sequence @t}}
    plan.call @t(%i) frame 0 path "t" : index
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @t() attributes {frame_bytes = 0 : i64} {
    plan.end
  }
  plan.sequence @s(%i: index) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.call' op does not fit the arguments of @t}}
    plan.call @t(%i) frame 0 path "t" : index
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.sequence' op must end in plan.end}}
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    nn.return
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.sequence' op must end in plan.end}}
  plan.sequence @s() attributes {frame_bytes = 0 : i64}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.sequence' op frame_bytes is negative: -1}}
  plan.sequence @s() attributes {frame_bytes = -1 : i64} {
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.loop' op runs 9223372036854775807 times; 1 to 1048576 are possible}}
    plan.loop 9223372036854775807 {
    ^bb0(%i: index):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>, %t: memref<0xi8>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.collective' op names the axis "expert", which the mesh does not have; axes are pipe, data, seq, tensor}}
    %0 = plan.collective all_reduce axes ["expert"] target %x source %x staging %t outer 1 for "x" : memref<8xf32>, memref<8xf32>, memref<0xi8>
    plan.wait %0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>, %y: memref<4xf32>, %t: memref<0xi8>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.collective' op has segments that leave out 2 elements of 8}}
    %0 = plan.collective all_gather axes ["data"] target %x source %y staging %t outer 1 for "x" {segments = array<i64: 4, 2>} : memref<8xf32>, memref<4xf32>, memref<0xi8>
    plan.wait %0
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<8xf32>) attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.send' op names the axis "x", which the mesh does not have; axes are pipe, data, seq, tensor}}
    plan.send %x to 1 on "x" channel "c" : memref<8xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.rank' op names the axis "data" twice}}
    %0 = plan.rank ["data", "data"] : index
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.flat @f at 0 : tensor<64xf32> of 128 over ["data"]
  // expected-error @+1 {{'plan.state' op of type 'tensor<64xf32>' at element 65 does not lie in @f, which has 128 elements of 'f32'}}
  plan.state @w at 65 : tensor<64xf32> {like = {}, flat = @f}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.fragments' op has 2 regions and 1 numbers of slots for 1 kinds of fragments}}
    plan.fragments "F0" slots [1] {
    ^bb0(%i: index, %slot: index):
    }, {
    ^bb0(%i: index, %slot: index):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{cannot read the stage "F0 C0"}}
    plan.fragments "F0 C0" slots [1] {
    ^bb0(%i: index, %slot: index):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s() attributes {frame_bytes = 0 : i64} {
    // expected-error @+1 {{'plan.fragments' op has 1 regions and 1 numbers of slots for 2 kinds of fragments}}
    plan.fragments "F0 B0" slots [1] {
    ^bb0(%i: index, %slot: index):
    }
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op ties two results to argument 0}}
  plan.kernel @k(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      attributes {generator = #plan.generator<rows>, ties = array<i64: 0, 0>} {
    plan.yield %x, %x : tensor<8xf32>, tensor<8xf32>
  }
}

// -----

// expected-error @+1 {{'plan.program' op has a config that is no JSON}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{H0356: its source has the shape [4], its type is 'tensor<8xf32>'}}
  plan.state @w at 0 : tensor<8xf32> {like = {role = #nn<role parameter>, source = #nn.source<"w" : tensor<4xf32>>}}
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, on_host, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xf32>
  }
  plan.sequence @s(%x: memref<8xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.launch' op is on the stream compute, kernel @k runs on host}}
    plan.launch @k(%x, %x) : (memref<8xf32>, memref<8xf32>) -> ()
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  // expected-error @+1 {{'plan.kernel' op runs on the host, where kernels have no scratch memory; it needs 64 bytes}}
  plan.kernel @k(%x: tensor<8xf32>) -> tensor<8xf32>
      attributes {generator = #plan.generator<rows>, on_host, scratch_bytes = 64 : i64, ties = array<i64: -1>} {
    plan.yield %x : tensor<8xf32>
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<3x8xf32>, %y: memref<9x8xf32>, %ids: memref<2xi32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.copy_rows' op copies rows of 'memref<9x8xf32>' at 'memref<2xi32>' to 'memref<3x8xf32>'}}
    plan.copy_rows %x, %y at %ids : memref<3x8xf32>, memref<9x8xf32>, memref<2xi32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %y: memref<9x8xf32>, %ids: memref<2xf32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.copy_rows' op copies rows of 'memref<9x8xf32>' at 'memref<2xf32>' to 'memref<2x8xf32>'}}
    plan.copy_rows %x, %y at %ids : memref<2x8xf32>, memref<9x8xf32>, memref<2xf32>
    plan.end
  }
}

// -----

plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<device 4096>, arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
  plan.sequence @s(%x: memref<2x8xf32>, %y: memref<9x8xf32>, %ids: memref<2xi32>) attributes {frame_bytes = 256 : i64} {
    // expected-error @+1 {{'plan.copy_rows' op is on the stream host, which runs kernels alone; use compute, copy or store}}
    plan.copy_rows %x, %y at %ids on host : memref<2x8xf32>, memref<9x8xf32>, memref<2xi32>
    plan.end
  }
}

// -----

// expected-error @+1 {{'plan.program' op has a file of unknown role "weights"}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {weights = 4096},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}

// -----

// expected-error @+1 {{'plan.program' op has a file of role "gradients" with "4 KiB", which is no number of bytes}}
plan.program @p family "gpt2" phase "memory" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {},
    persistent_bytes = #plan.bytes<file 4096>, files = {gradients = "4 KiB"},
    arena_bytes = #plan.bytes<device 4096>,
    scratch_offset = 0 : i64, scratch_bytes_per_thread = 0 : i64, owners = {}} {
}
