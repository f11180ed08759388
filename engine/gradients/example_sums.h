// Sums over the examples of a batch, such as gradients of weights, computed without materialising each example's
// addend. They give each addend's squared norm, and the sum of the addends with one factor per example. Formulas:
// Goodfellow 2015 ("Efficient per-example gradient computations"), Li et al. 2022 (arXiv:2110.05679, "ghost clipping"),
// Bu et al. 2023 (arXiv:2210.00038, "book-keeping").
//
// The rule for an op is beside its gradient function in ops/:
//
//   RIVULET_EXAMPLE_SUM("BiasAddGrad", [](ExampleSumContext& c) -> ExampleSumResult { … });
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/gradients/example_layout.h"
#include "engine/graph/scope.h"

namespace rivulet {

// Adds nodes for sums over examples. Errors are kept in the scope.
class ExampleOps {
 public:
  ExampleOps(Scope scope, ExampleLayouts& layouts) : scope_(std::move(scope)), layouts_(layouts) {}
  const Scope& scope() const { return scope_; }
  ExampleLayouts& layouts() const { return layouts_; }
  int64_t examples() const { return layouts_.examples(); }

  Output Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs = {});
  Output Ints(std::vector<int64_t> values);
  Output Reshape(Output x, std::vector<int64_t> dims);
  Output Sum(Output x, std::vector<int64_t> axes);
  Output Mul(Output a, Output b) { return Op("Mul", {a, b}); }
  Output Add(Output a, Output b) { return Op("AddV2", {a, b}); }
  Output BatchMatMul(Output a, Output b, bool adjoint_a, bool adjoint_b);

  // Returns `x`, in which each element belongs to one example, as [examples, elements per example].
  Output ByExample(Output x, const ExampleAxis& at);
  // Returns the rows of a matrix with the examples at `at`, as [examples, positions, width].
  Output Positions(Output matrix, const ExampleAxis& at);
  // Returns `x` with each element multiplied by its example's factor; `factors` is [examples].
  Output Weigh(Output x, const ExampleAxis& at, Output factors);
  Output SquaredRows(Output each);  // [examples, …] → [examples]

 private:
  Scope scope_;
  ExampleLayouts& layouts_;
};

// A sum over examples, Σ_i t_i. All t_i have the sum's shape, which is known.
class ExampleSum {
 public:
  // Matrices t_i = a_iᵀ · g_i: a [examples, positions, rows], g [examples, positions, columns].
  struct Outer {
    Output a, g;
  };
  // Tables with few nonzero rows: t_i is the sum over p of values_i[p], added to row indices_i[p]. indices [examples,
  // positions], values [examples, positions, width].
  struct Rows {
    Output indices, values;
  };

  ExampleSum(ExampleOps& ops, Shape shape) : ops_(ops), shape_(std::move(shape)) {}
  virtual ~ExampleSum() = default;
  const Shape& shape() const { return shape_; }

  virtual Output SquaredNorms() = 0;            // ‖t_i‖², [examples]
  virtual Output Each() = 0;                    // t_i, [examples, elements]
  virtual Output Weighted(Output factors) = 0;  // Σ_i factors_i · t_i, in the sum's shape

  // Approximate costs of SquaredNorms and Each, in multiplications; a number read or written counts as kWordCost.
  virtual double NormCost() const = 0;
  virtual double EachCost() const = 0;
  virtual const Outer* outer() const { return nullptr; }
  virtual const Rows* rows() const { return nullptr; }

 protected:
  ExampleOps& ops_;
  const Shape shape_;
};

using ExampleSumPtr = std::unique_ptr<ExampleSum>;
using ExampleSumResult = StatusOr<ExampleSumPtr>;

// The argument of a rule: a node whose output sums over examples.
class ExampleSumContext {
 public:
  ExampleSumContext(ExampleOps& ops, Output sum) : ops_(ops), sum_(sum) {}
  ExampleOps& ops() const { return ops_; }
  const Node& node() const { return *sum_.node; }
  Output sum() const { return sum_; }
  Output input(int i) const { return sum_.node->input(i); }
  // The axis of the examples in input i. nullopt: the input has none, or its examples are mixed.
  std::optional<ExampleAxis> axis(int i) const { return ops_.layouts().AxisOf(input(i)); }
  // Returns UNIMPLEMENTED, which names the node.
  Status Refuse() const;
  // Returns a copy of the node with `input` as input i.
  Output With(int i, Output input) const;

 private:
  ExampleOps& ops_;
  Output sum_;
};

// Makes a sum whose addends are cheap to materialise, as [examples, elements]; they are made at the first need.
ExampleSumPtr DirectSum(ExampleOps& ops, Shape shape, std::function<Output()> each);
// Makes aᵀ · g, or gᵀ · a if `transposed`. `weigh` computes the sum of `factors` times the addends with one product.
ExampleSumPtr OuterSum(ExampleOps& ops, Shape shape, ExampleSum::Outer outer, std::function<Output(Output)> weigh);
ExampleSumPtr RowSum(ExampleOps& ops, Shape shape, ExampleSum::Rows rows, std::function<Output(Output)> weigh);
// Makes a sum whose addends need much work or memory: `each` makes all of them, `of_example` one.
ExampleSumPtr LargeSum(ExampleOps& ops, Shape shape, double each_cost, std::function<Output()> each,
                       std::function<Output(int64_t)> of_example, std::function<Output(Output)> weigh);

// Returns `output` as a sum over examples. UNIMPLEMENTED names an op without a rule.
ExampleSumResult SumOfExamples(ExampleOps& ops, Output output);

using ExampleSumFn = std::function<ExampleSumResult(ExampleSumContext&)>;
// Registers a rule. A check fails if two rules have the same op.
struct ExampleSumRegistration {
  ExampleSumRegistration(const char* op, ExampleSumFn rule);
};
#define RIVULET_EXAMPLE_SUM(op, ...) RIVULET_EXAMPLE_SUM_IMPL_(op, __COUNTER__, __VA_ARGS__)
#define RIVULET_EXAMPLE_SUM_IMPL_(op, counter, ...) RIVULET_EXAMPLE_SUM_IMPL2_(op, counter, __VA_ARGS__)
#define RIVULET_EXAMPLE_SUM_IMPL2_(op, counter, ...) \
  [[maybe_unused]] static const ::rivulet::ExampleSumRegistration rivulet_example_sum_##counter(op, __VA_ARGS__)

}  // namespace rivulet
