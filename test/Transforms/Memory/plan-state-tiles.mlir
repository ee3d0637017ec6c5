// RUN: sed 's/nn.micro_batches.*/nn.set @w.grad, %x : tensor<50x50xf32>/; /bb0(%i: index)/,/^    }/d' %S/../Spmd/stream-states.mlir | heddle-opt --spmd-stream-states --fuse-form-kernels --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s
// RUN: sed 's/nn.micro_batches.*/nn.set @w.grad, %x : tensor<50x50xf32>/; /bb0(%i: index)/,/^    }/d' %S/../Spmd/stream-states.mlir | sed 's/place = {sub_group_size = 1000}/memory_budget = 40960, &/' | heddle-opt --spmd-stream-states --fuse-form-kernels --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=TIGHT

// States on file begin at pages, and so do the slots of their tiles. An
// update writes each tile of the parameters where they are: nothing is copied
// but what is fetched and stored, beside the kernels.

// CHECK-LABEL: plan.program @m
// CHECK-SAME: arena_bytes = #plan.bytes<device {{[0-9]+}}>
// CHECK-SAME: persistent_bytes = #plan.bytes<device 20480, file 12288>
// CHECK: plan.state @w at 0 : tensor<50x50xf32>
// CHECK: plan.state @w.grad at 10240 : tensor<50x50xf32>
// CHECK: plan.state @w.exp_avg at 0 in file : tensor<50x50xf32>
// CHECK: plan.sequence @train
// CHECK-DAG: %[[FILE:.*]] = plan.state_ref @w.exp_avg : memref<2560xf32>
// CHECK-DAG: %[[P:.*]] = plan.state_ref @w : memref<2560xf32>
// CHECK-DAG: %[[P0:.*]] = plan.view %[[P]][0] : memref<2560xf32> -> memref<1024xf32>
// CHECK-DAG: %[[P1:.*]] = plan.view %[[P]][1024] : memref<2560xf32> -> memref<1024xf32>
// CHECK-DAG: plan.buffer at 12288 live{{.*}} owner "windows of states" : memref<1024xf32>
// CHECK-DAG: plan.buffer at 16384 live{{.*}} owner "windows of states" : memref<1024xf32>
// CHECK-DAG: plan.buffer at 20480 live{{.*}} owner "windows of states" : memref<512xf32>
// CHECK: %[[V0:.*]] = plan.view %[[FILE]][0] : memref<2560xf32> -> memref<1024xf32>
// CHECK: %[[READY:.*]] = plan.record compute
// CHECK: plan.wait %[[READY]] on copy
// CHECK: plan.copy %[[S:.*]], %[[V0]] on copy : memref<1024xf32>, memref<1024xf32>
// CHECK: %[[THERE:.*]] = plan.record copy
// CHECK: plan.wait %[[THERE]]{{ *$}}
// CHECK: plan.launch @momentum(%[[P0]], %{{.*}}, %[[S]], %{{.*}})
// CHECK: %[[DONE:.*]] = plan.record compute
// CHECK: plan.wait %[[DONE]] on store
// CHECK: plan.copy %{{.*}}, %[[S]] on store
// CHECK: plan.launch @momentum{{.*}}(%[[P1]],
// CHECK-NOT: plan.copy %[[P]]

// Where the budget has no room for three tiles, fewer are fetched ahead.
// TIGHT: arena_bytes = #plan.bytes<device 20480>
// TIGHT: plan.copy {{.*}} on copy : memref<1024xf32>, memref<1024xf32>
// TIGHT: plan.launch @momentum(
