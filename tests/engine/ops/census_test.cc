// Nothing is half added: every registered op has all that an op needs.
#include "engine/graph/op.h"
#include "engine/program/kernel.h"
#include "engine/program/structural_ops.h"
#include "engine/program/via_float32.h"
#include "engine/session/async_op.h"

namespace rivulet {
namespace {

TEST(OpCensus, EveryOp_HasDocShapeAndGradientOrReason) {
  const auto ops = OpRegistry::Global().All();
  EXPECT_GT(ops.size(), 80u);
  for (const OpDef* op : ops) {
    EXPECT_FALSE(op->doc.empty()) << op->name << " (" << op->registered_at << ") has no doc";
    EXPECT_TRUE(op->shape != nullptr) << op->name << " (" << op->registered_at << ") has no shape function";
    EXPECT_NE(op->gradient == nullptr, op->not_differentiable.empty())
        << op->name << " (" << op->registered_at << ") needs either a gradient or a reason why there is none";
  }
}

TEST(OpCensus, EveryOp_RunsOnACpu) {
  for (const OpDef* op : OpRegistry::Global().All()) {
    // Shapes are facts of a compiled program, never computed.
    if (op->name == "Shape" || op->name == "Size" || op->name == "Rank") continue;
    EXPECT_TRUE(KernelRegistry::Global().Has(op->name, Device::kCpu) || AsyncOpRegistry::Global().Has(op->name))
        << op->name << " has no kernel and is not asynchronous";
  }
}

TEST(OpCensus, EveryTypeThatAnOpAllows_HasAKernel) {
  for (const OpDef* op : OpRegistry::Global().All()) {
    if (op->name == "Shape" || op->name == "Size" || op->name == "Rank") continue;
    // The attribute that chooses the kernel.
    const AttrDef* chooses = op->FindAttr("T");
    for (const AttrDef& attr : op->attrs)
      if (chooses == nullptr && attr.kind == AttrDef::Kind::kType) chooses = &attr;
    if (chooses == nullptr || chooses->kind != AttrDef::Kind::kType) continue;
    for (DType dtype : chooses->allowed_types)
      EXPECT_TRUE(HasKernelFor(op->name, Device::kCpu, dtype) ||
                  StructuralKind(op->name) != StructuralOp::kNone)
          << op->name << " allows " << Name(dtype) << " and has no kernel for it";
  }
}

}  // namespace
}  // namespace rivulet
