// RUN: heddle-opt %s -fuse-pack-weights=bits=0 | heddle-opt | FileCheck %s
// RUN: heddle-opt %s "-fuse-pack-weights=bits=4 group=8 keep=wte" | FileCheck %s --check-prefix=INT4
// RUN: heddle-opt %s "-fuse-pack-weights=bits=8 even=false" | FileCheck %s --check-prefix=INT8
// RUN: heddle-opt %s "-fuse-pack-weights=bits=4 group=8 keep=wte round-inputs" | FileCheck %s --check-prefix=ROUNDED
// RUN: sed 's/strategy<{}>/strategy<{target = sm_80}>/' %s | heddle-opt "-fuse-pack-weights=bits=4 group=8 keep=wte" | heddle-opt | FileCheck %s --check-prefix=GPU
// RUN: not heddle-opt %s "-fuse-pack-weights=bits=4 group=64" 2>&1 | FileCheck %s --check-prefix=GROUP
// RUN: not heddle-opt %s "-fuse-pack-weights=bits=4 keep=h.0.*" 2>&1 | FileCheck %s --check-prefix=FORMS
// RUN: not heddle-opt %s "-fuse-pack-weights=bits=4 group=12" 2>&1 | FileCheck %s --check-prefix=WORDS

// WORDS: error: H0147: groups of 12 inputs are no whole words of 8 codes
// WORDS: note: help: choose a multiple of 8
// GROUP: error: H0144: the weight "h.0.w" has 16 inputs here, which groups of 64 do not divide
// GROUP: note: help: where the files have no codes, use --quantize-group 16; with --quantize none it always compiles
// FORMS: error: H0146: multiplies by "h.0.w" with 16 bits and by "h.1.w" with 4, but layers of one kind share it

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // The table is read as it is too; a weight that training writes stays.
  // CHECK: nn.state @wte.words role derived : tensor<2x8x32x2xbf16> {packed = #nn.packed<words of "wte" as tensor<40x16xbf16>, bits = 16, group = 0, even = true, transposed = true>}
  // CHECK-NEXT: nn.state @wte role parameter : tensor<40x16xbf16>
  // CHECK-NOT: role parameter : tensor<16x33
  // CHECK: nn.state @h.0.w.words role derived : tensor<2x8x32x2xbf16> {init = {{.*}}, packed = #nn.packed<words of "h.0.w" as tensor<16x33xbf16>, bits = 16, {{.*}}transposed = false>}
  // CHECK: nn.state @h.1.w.words
  // CHECK: nn.state @own role parameter
  // INT4: nn.state @wte.words role derived : tensor<2x8x32x2xbf16>
  // INT4: nn.state @h.0.w.words role derived : tensor<2x2x32xi32> {{.*}}bits = 4, group = 8, even = true
  // INT4: nn.state @h.0.w.scales role derived : tensor<2x2x32xf16> {{.*}}#nn.packed<scales of "h.0.w"
  // A group begins at half a block of 8 words, and 40 outputs are 3 panels of 16.
  // GPU: nn.state @wte.words role derived : tensor<3x1x128x2xbf16> {packed = #nn.packed<words of "wte" {{.*}}transposed = true, layout = fragments>}
  // GPU: nn.state @h.0.w.words role derived : tensor<3x1x128xi32>
  // GPU: nn.state @h.0.w.scales role derived : tensor<3x2x16xf16>
  // GPU: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} bias %{{.*}} bits 4 layout fragments :
  // INT8: nn.state @wte.words role derived : tensor<2x4x32xi32>
  // INT8: nn.state @wte.zeros role derived : tensor<2x1x32xf16>
  nn.state @wte role parameter : tensor<40x16xbf16>
  nn.state @h.0.w role parameter : tensor<16x33xbf16> {init = #nn.init<normal, 0.0 : f64, 0.02 : f64>, trainable}
  nn.state @h.1.w role parameter : tensor<16x33xbf16>
  nn.state @own role parameter : tensor<16x16xbf16>
  // A rank's part is packed as it is; what whole it is of stays known.
  // CHECK: nn.state @part.words role derived : tensor<1x8x32x2xbf16> {packed = #nn.packed<words of "part" as tensor<16x16xbf16>, {{.*}}>, segments = array<i64: 20, 12>, storage = {{.*}}, whole = tensor<16x32xbf16>}
  // INT8: nn.state @part.scales role derived : tensor<1x1x32xf16>
  nn.state @part role parameter : tensor<16x16xbf16> {segments = array<i64: 20, 12>, storage = #dist.sharding<[[], ["tensor"]], unreduced []>, whole = tensor<16x32xbf16>}

  // CHECK: nn.func @block(%[[X:.*]]: tensor<3x16xbf16>, %[[B:.*]]: tensor<33xbf16>, %[[W:.*]]: tensor<2x8x32x2xbf16>)
  // CHECK-NEXT: nn.packed_linear %[[X]], %[[W]] bias %[[B]] : (
  // INT4: nn.func @block(%[[X:.*]]: tensor<3x16xbf16>, %[[B:.*]]: tensor<33xbf16>, %[[W:.*]]: tensor<2x2x32xi32>, %[[S:.*]]: tensor<2x2x32xf16>)
  // INT4-NEXT: nn.packed_linear %[[X]], %[[W]] scales %[[S]] bias %[[B]] bits 4 :
  // ROUNDED: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} bias %{{.*}} bits 4 input_block 8 :
  nn.func @block(%x: tensor<3x16xbf16>, %w: tensor<16x33xbf16>, %b: tensor<33xbf16>) -> tensor<3x33xbf16> {
    %y = nn.linear %x, %w bias %b : (tensor<3x16xbf16>, tensor<16x33xbf16>, tensor<33xbf16>) -> tensor<3x33xbf16>
    nn.return %y : tensor<3x33xbf16>
  }

  // CHECK: nn.func @forward(%[[IDS:.*]]: tensor<3xi32>, %[[B:.*]]: tensor<33xbf16>
  // CHECK-DAG: %[[TABLE:.*]] = nn.get @wte :
  // CHECK-DAG: %[[HEAD:.*]] = nn.get @wte.words
  // CHECK-DAG: %[[W0:.*]] = nn.get @h.0.w.words
  // CHECK: nn.embedding %[[TABLE]]
  // CHECK: nn.call @block(%{{.*}}, %[[B]], %[[W0]]) path "h.0"
  // CHECK: nn.packed_linear %{{.*}}, %[[HEAD]] : (
  // CHECK: nn.packed_linear
  // CHECK: nn.linear
  // INT8: nn.packed_linear %{{.*}}, %{{.*}} scales %{{.*}} zeros %{{.*}} bits 8
  nn.func @forward(%ids: tensor<3xi32>, %b: tensor<33xbf16>) -> (tensor<3x40xbf16>, tensor<3x33xbf16>, tensor<3x16xbf16>, tensor<3x16xbf16>) {
    %t = nn.get @wte : tensor<40x16xbf16>
    %w0 = nn.get @h.0.w : tensor<16x33xbf16>
    %w1 = nn.get @h.1.w : tensor<16x33xbf16>
    %own = nn.get @own : tensor<16x16xbf16>
    %part = nn.get @part : tensor<16x16xbf16>
    %x = nn.embedding %t[%ids] : (tensor<40x16xbf16>, tensor<3xi32>) -> tensor<3x16xbf16>
    %y0 = nn.call @block(%x, %w0, %b) path "h.0" : (tensor<3x16xbf16>, tensor<16x33xbf16>, tensor<33xbf16>) -> tensor<3x33xbf16>
    %y1 = nn.call @block(%x, %w1, %b) path "h.1" : (tensor<3x16xbf16>, tensor<16x33xbf16>, tensor<33xbf16>) -> tensor<3x33xbf16>
    %l = nn.linear %x, %t {transposed} : (tensor<3x16xbf16>, tensor<40x16xbf16>) -> tensor<3x40xbf16>
    %p = nn.linear %x, %part : (tensor<3x16xbf16>, tensor<16x16xbf16>) -> tensor<3x16xbf16>
    %z = nn.linear %x, %own : (tensor<3x16xbf16>, tensor<16x16xbf16>) -> tensor<3x16xbf16>
    nn.set @own, %own : tensor<16x16xbf16>
    nn.return %l, %y1, %p, %z : tensor<3x40xbf16>, tensor<3x33xbf16>, tensor<3x16xbf16>, tensor<3x16xbf16>
  }
}
