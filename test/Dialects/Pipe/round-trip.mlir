// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s

// CHECK: pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
// CHECK: pipe.stage @stage1 index 1 calls []
pipe.stage @stage1 index 1 calls []
// CHECK: pipe.schedule @schedule micro_batches 2 ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]
pipe.schedule @schedule micro_batches 2 ["F0 F1 B0 B1 O", "F0 B0 F1 B1 O"]

// CHECK: pipe.schedule @chunks micro_batches 1 ["F0 F0/1 B0/1 I0 W0 O"]
pipe.schedule @chunks micro_batches 1 ["F0 F0/1 B0/1 I0 W0 O"]

// CHECK: pipe.fragments "F0 F0/1" slots [1, 2] {
// CHECK-NEXT: ^bb0(%{{.*}}: index, %{{.*}}: index):
// CHECK-NEXT: nn.return
// CHECK-NEXT: }, {
pipe.fragments "F0 F0/1" slots [1, 2] {
^bb0(%batch: index, %slot: index):
  nn.return
}, {
^bb0(%batch: index, %slot: index):
  nn.return
}
