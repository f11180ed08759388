// Nothing is half added: every registered op has all that an op needs.
#include "engine/graph/op.h"
#include "engine/program/kernel.h"

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

}  // namespace
}  // namespace rivulet
