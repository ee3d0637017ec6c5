// RUN: heddle-opt %s -fuse-split-attention | FileCheck %s

// Twenty pages of 16 positions are two parts of 256.
// CHECK-LABEL: nn.func @one_token
nn.func @one_token(%k: tensor<20x1x4x16xf32>, %v: tensor<20x1x16x4xf32>, %x: tensor<2x1x24xbf16>, %p: tensor<2x20xi32>, %at: tensor<2x1xi32>, %n: tensor<2xi32>) -> tensor<2x1x16xbf16> {
  // CHECK: %[[P:.*]] = nn.paged_attention {{.*}} {heads = #nn.heads<4, kv = 1, scale = 5.000000e-01>, in_parts, mask = #nn.mask<causal, window = 300>} {{.*}} -> tensor<2x1x2x4x6xf32>
  // CHECK: %[[Y:.*]] = nn.paged_attention_join %[[P]] at %{{.*}} lengths %{{.*}} {mask = #nn.mask<causal, window = 300>, part_tokens = 256 : i64} : {{.*}} -> tensor<2x1x16xbf16>
  // CHECK: nn.return %[[Y]]
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal, window = 300>} : (tensor<20x1x4x16xf32>, tensor<20x1x16x4xf32>, tensor<2x1x24xbf16>, tensor<2x20xi32>, tensor<2x1xi32>, tensor<2xi32>) -> tensor<2x1x16xbf16>
  nn.return %y : tensor<2x1x16xbf16>
}

// CHECK-LABEL: nn.func @short
nn.func @short(%k: tensor<20x1x4x16xf32>, %v: tensor<20x1x16x4xf32>, %x: tensor<1x1x24xf32>, %p: tensor<1x16xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>) -> tensor<1x1x16xf32> {
  // CHECK-NOT: nn.paged_attention_join
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<20x1x4x16xf32>, tensor<20x1x16x4xf32>, tensor<1x1x24xf32>, tensor<1x16xi32>, tensor<1x1xi32>, tensor<1xi32>) -> tensor<1x1x16xf32>
  nn.return %y : tensor<1x1x16xf32>
}

// CHECK-LABEL: nn.func @prompt
nn.func @prompt(%k: tensor<20x1x4x16xf32>, %v: tensor<20x1x16x4xf32>, %x: tensor<1x2x24xf32>, %p: tensor<1x17xi32>, %at: tensor<1x2xi32>, %n: tensor<1xi32>) -> tensor<1x2x16xf32> {
  // CHECK-NOT: nn.paged_attention_join
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal>} : (tensor<20x1x4x16xf32>, tensor<20x1x16x4xf32>, tensor<1x2x24xf32>, tensor<1x17xi32>, tensor<1x2xi32>, tensor<1xi32>) -> tensor<1x2x16xf32>
  nn.return %y : tensor<1x2x16xf32>
}

// CHECK-LABEL: nn.func @layout
nn.func @layout(%k: tensor<20x1x4x16xf32>, %v: tensor<20x1x16x4xf32>, %x: tensor<1x1x24xf32>, %p: tensor<1x17xi32>, %at: tensor<1x1xi32>, %n: tensor<1xi32>, %l: tensor<4x17x1xi32>) -> tensor<1x1x16xf32> {
  // CHECK: nn.paged_attention {{.*}} layout %{{.*}} {heads = #nn.heads<4, kv = 1, scale = 5.000000e-01>, in_parts, mask = #nn.mask<causal, block = 16, density = 2.500000e-01>}
  // CHECK: nn.paged_attention_join {{.*}} {mask = #nn.mask<causal, block = 16, density = 2.500000e-01>, part_tokens = 256 : i64}
  %y = nn.paged_attention %k, %v of %x pages %p at %at lengths %n layout %l {heads = #nn.heads<4, kv = 1, scale = 0.5>, mask = #nn.mask<causal, block = 16, density = 0.25>} : (tensor<20x1x4x16xf32>, tensor<20x1x16x4xf32>, tensor<1x1x24xf32>, tensor<1x17xi32>, tensor<1x1xi32>, tensor<1xi32>, tensor<4x17x1xi32>) -> tensor<1x1x16xf32>
  nn.return %y : tensor<1x1x16xf32>
}
