#include "engine/gradients/example_sums.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "engine/base/named_registry.h"
#include "engine/graph/inference.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

// Multiplications in the time of a number's way to memory and back, about: measured on products of the presets.
constexpr double kWordCost = 48;
// Most numbers of all addends together that are in memory at once: 128 MB.
constexpr double kMostNumbers = 32e6;

struct SumRule {
  std::string name;
  ExampleSumFn apply;
};

NamedRegistry<SumRule>& SumRules() {
  static auto* const rules = new NamedRegistry<SumRule>("rules for sums of examples");
  return *rules;
}

double Elements(const Shape& shape) { return static_cast<double>(shape.elements()); }

Output WeighEach(ExampleOps& ops, Output each, const Shape& shape, Output factors) {
  const int64_t elements = shape.elements();
  const Output row = ops.Reshape(factors, {1, ops.examples()});
  return ops.Reshape(ops.Op("MatMul", {row, ops.Reshape(each, {ops.examples(), elements})}),
                     {shape.dims().begin(), shape.dims().end()});
}

class Direct final : public ExampleSum {
 public:
  Direct(ExampleOps& ops, Shape shape, std::function<Output()> make)
      : ExampleSum(ops, std::move(shape)), make_(std::move(make)) {}
  Output Each() override {
    if (!each_) each_ = make_();
    return each_;
  }
  Output SquaredNorms() override { return ops_.SquaredRows(Each()); }
  Output Weighted(Output factors) override { return WeighEach(ops_, Each(), shape_, factors); }
  double NormCost() const override { return EachCost(); }
  double EachCost() const override { return static_cast<double>(ops_.examples()) * Elements(shape_) * kWordCost; }

 private:
  const std::function<Output()> make_;
  Output each_;
};

// Where the addends were made one by one they are weighed too, else one product has the factors in it.
class Outer final : public ExampleSum {
 public:
  Outer(ExampleOps& ops, Shape shape, ExampleSum::Outer outer, std::function<Output(Output)> weigh)
      : ExampleSum(ops, std::move(shape)), outer_(outer), weigh_(std::move(weigh)) {}

  Output Each() override {
    if (!each_) {
      each_ = ops_.Reshape(ops_.BatchMatMul(outer_.a, outer_.g, true, false), {ops_.examples(), shape_.elements()});
    }
    return each_;
  }
  Output SquaredNorms() override {
    if (positions() == 1) return ops_.Mul(ops_.SquaredRows(outer_.a), ops_.SquaredRows(outer_.g));
    if (PrefersEach()) return ops_.SquaredRows(Each());
    const Output products =
        ops_.Mul(ops_.BatchMatMul(outer_.a, outer_.a, false, true), ops_.BatchMatMul(outer_.g, outer_.g, false, true));
    return ops_.Sum(products, {1, 2});
  }
  Output Weighted(Output factors) override { return each_ ? WeighEach(ops_, each_, shape_, factors) : weigh_(factors); }
  double NormCost() const override { return PrefersEach() ? EachCost() : GramCost(); }
  // The product is not needed a second time: memory alone counts.
  double EachCost() const override { return examples() * Elements(shape_) * kWordCost; }
  const ExampleSum::Outer* outer() const override { return &outer_; }

 private:
  double examples() const { return static_cast<double>(ops_.examples()); }
  int64_t positions() const { return outer_.a.shape().dim(1); }
  double GramCost() const {
    const auto at = static_cast<double>(positions());
    return examples() * at * at * static_cast<double>(outer_.a.shape().dim(2) + outer_.g.shape().dim(2));
  }
  bool PrefersEach() const {
    return positions() > 1 && EachCost() < GramCost() && examples() * Elements(shape_) <= kMostNumbers;
  }

  const ExampleSum::Outer outer_;
  const std::function<Output(Output)> weigh_;
  Output each_;
};

class RowsSum final : public ExampleSum {
 public:
  RowsSum(ExampleOps& ops, Shape shape, Rows rows, std::function<Output(Output)> weigh)
      : ExampleSum(ops, std::move(shape)), rows_(rows), weigh_(std::move(weigh)) {}

  // A table for each example, one after the other.
  Output Each() override {
    if (each_) return each_;
    const int64_t examples = ops_.examples(), count = shape_.dim(0), positions = rows_.indices.shape().dim(1);
    std::vector<int64_t> first(static_cast<size_t>(examples));
    for (int64_t i = 0; i < examples; ++i) first[static_cast<size_t>(i)] = i * count;
    Output offsets = ops_.Reshape(ops_.Ints(first), {examples, 1}), indices = rows_.indices;
    if (indices.dtype() != DType::kInt32) indices = ops_.Op("Cast", {indices}, {{"DstT", DType::kInt32}});
    const Output flat = ops_.Reshape(ops_.Add(indices, offsets), {examples * positions});
    const Output values = ops_.Reshape(rows_.values, {examples * positions, rows_.values.shape().dim(2)});
    const Output total = ops_.scope().Const(Tensor::Scalar<int32_t>(static_cast<int32_t>(examples * count)));
    each_ = ops_.Reshape(ops_.Op("UnsortedSegmentSum", {values, flat, total}), {examples, shape_.elements()});
    return each_;
  }
  // Two positions of one row have an inner product; of others none.
  Output SquaredNorms() override {
    const double numbers = static_cast<double>(ops_.examples()) * Elements(shape_);
    if (EachCost() < GramCost() && numbers <= kMostNumbers) return ops_.SquaredRows(Each());
    const int64_t examples = ops_.examples(), positions = rows_.indices.shape().dim(1);
    const Output same = ops_.Op("Equal", {ops_.Reshape(rows_.indices, {examples, positions, 1}),
                                          ops_.Reshape(rows_.indices, {examples, 1, positions})});
    const Output products = ops_.BatchMatMul(rows_.values, rows_.values, false, true);
    return ops_.Sum(ops_.Mul(products, ops_.Op("Cast", {same}, {{"DstT", products.dtype()}})), {1, 2});
  }
  Output Weighted(Output factors) override { return each_ ? WeighEach(ops_, each_, shape_, factors) : weigh_(factors); }
  double NormCost() const override { return std::min(EachCost(), GramCost()); }
  double EachCost() const override { return static_cast<double>(ops_.examples()) * Elements(shape_) * kWordCost; }
  const Rows* rows() const override { return &rows_; }

 private:
  double GramCost() const {
    const auto positions = static_cast<double>(rows_.indices.shape().dim(1));
    return static_cast<double>(ops_.examples() * rows_.values.shape().dim(2)) * positions * positions;
  }
  const Rows rows_;
  const std::function<Output(Output)> weigh_;
  Output each_;
};

class Large final : public ExampleSum {
 public:
  Large(ExampleOps& ops, Shape shape, double cost, std::function<Output()> make,
        std::function<Output(int64_t)> of_example, std::function<Output(Output)> weigh)
      : ExampleSum(ops, std::move(shape)),
        cost_(cost),
        make_(std::move(make)),
        of_example_(std::move(of_example)),
        weigh_(std::move(weigh)) {}

  Output Each() override {
    if (!each_) each_ = make_();
    return each_;
  }
  // Where all do not fit in memory, one after the other is made, and the sum by one product more.
  Output SquaredNorms() override {
    if (static_cast<double>(ops_.examples()) * Elements(shape_) <= kMostNumbers) return ops_.SquaredRows(Each());
    std::vector<Output> norms;
    for (int64_t i = 0; i < ops_.examples(); ++i) {
      norms.push_back(ops_.SquaredRows(ops_.Reshape(of_example_(i), {1, shape_.elements()})));
    }
    norms.push_back(ops_.scope().Const(Tensor::Scalar<int32_t>(0)));
    return ops_.Op("ConcatV2", norms);
  }
  Output Weighted(Output factors) override { return each_ ? WeighEach(ops_, each_, shape_, factors) : weigh_(factors); }
  double NormCost() const override { return cost_; }
  double EachCost() const override { return cost_; }

 private:
  const double cost_;
  const std::function<Output()> make_;
  const std::function<Output(int64_t)> of_example_;
  const std::function<Output(Output)> weigh_;
  Output each_;
};

// A sum whose elements are rearranged: the addends are rearranged alike. `of_each` takes [examples, elements].
class Moved final : public ExampleSum {
 public:
  Moved(ExampleOps& ops, Shape shape, ExampleSumPtr from, std::function<Output(Output)> of_sum,
        std::function<Output(Output)> of_each)
      : ExampleSum(ops, std::move(shape)),
        from_(std::move(from)),
        of_sum_(std::move(of_sum)),
        of_each_(std::move(of_each)) {}
  Output SquaredNorms() override { return from_->SquaredNorms(); }
  Output Each() override { return of_each_(from_->Each()); }
  Output Weighted(Output factors) override { return of_sum_(from_->Weighted(factors)); }
  double NormCost() const override { return from_->NormCost(); }
  double EachCost() const override { return from_->EachCost(); }

 private:
  const ExampleSumPtr from_;
  const std::function<Output(Output)> of_sum_, of_each_;
};

// Sums beside each other.
class Joined final : public ExampleSum {
 public:
  Joined(ExampleOps& ops, Shape shape, std::vector<ExampleSumPtr> parts, int axis)
      : ExampleSum(ops, std::move(shape)), parts_(std::move(parts)), axis_(axis) {}
  Output SquaredNorms() override {
    std::vector<Output> norms;
    for (const ExampleSumPtr& part : parts_) norms.push_back(part->SquaredNorms());
    return ops_.Op("AddN", norms);
  }
  Output Each() override {
    std::vector<Output> all;
    for (const ExampleSumPtr& part : parts_) {
      std::vector<int64_t> dims = {ops_.examples()};
      dims.insert(dims.end(), part->shape().dims().begin(), part->shape().dims().end());
      all.push_back(ops_.Reshape(part->Each(), dims));
    }
    all.push_back(ops_.scope().Const(Tensor::Scalar<int32_t>(axis_ + 1)));
    return ops_.Reshape(ops_.Op("ConcatV2", all), {ops_.examples(), shape_.elements()});
  }
  Output Weighted(Output factors) override {
    std::vector<Output> all;
    for (const ExampleSumPtr& part : parts_) all.push_back(part->Weighted(factors));
    all.push_back(ops_.scope().Const(Tensor::Scalar<int32_t>(axis_)));
    return ops_.Op("ConcatV2", all);
  }
  double NormCost() const override { return Total(&ExampleSum::NormCost); }
  double EachCost() const override { return Total(&ExampleSum::EachCost); }

 private:
  double Total(double (ExampleSum::*cost)() const) const {
    double total = 0;
    for (const ExampleSumPtr& part : parts_) total += ((*part).*cost)();
    return total;
  }
  const std::vector<ExampleSumPtr> parts_;
  const int axis_;
};

// A weight with several uses: its addends are sums of several, whose inner products also count.
class Tied final : public ExampleSum {
 public:
  Tied(ExampleOps& ops, Shape shape, std::vector<ExampleSumPtr> parts)
      : ExampleSum(ops, std::move(shape)), parts_(std::move(parts)) {}

  Output Each() override {
    if (each_) return each_;
    std::vector<Output> all;
    for (const ExampleSumPtr& part : parts_) all.push_back(part->Each());
    each_ = ops_.Op("AddN", all);
    return each_;
  }
  Output SquaredNorms() override {
    if (PrefersEach()) return ops_.SquaredRows(Each());
    std::vector<Output> terms;
    const Output two = ops_.scope().Const(2.0f);
    for (size_t i = 0; i < parts_.size(); ++i) {
      terms.push_back(parts_[i]->SquaredNorms());
      for (size_t k = 0; k < i; ++k) terms.push_back(ops_.Mul(Inner(*parts_[i], *parts_[k]), two));
    }
    return ops_.Op("AddN", terms);
  }
  Output Weighted(Output factors) override {
    if (each_) return WeighEach(ops_, each_, shape_, factors);
    std::vector<Output> all;
    for (const ExampleSumPtr& part : parts_) all.push_back(part->Weighted(factors));
    return ops_.Op("AddN", all);
  }
  double NormCost() const override { return EachCost(); }
  double EachCost() const override {
    double total = static_cast<double>(ops_.examples()) * Elements(shape_) * kWordCost;
    for (const ExampleSumPtr& part : parts_) total += part->EachCost();
    return total;
  }

 private:
  // Products of positions are worth it where each table is large.
  bool PrefersEach() const {
    for (const ExampleSumPtr& part : parts_)
      if (part->outer() == nullptr && part->rows() == nullptr) return true;
    return static_cast<double>(ops_.examples()) * Elements(shape_) <= kMostNumbers;
  }

  Output Inner(const ExampleSum& left, const ExampleSum& right) {
    if (left.outer() != nullptr && right.outer() != nullptr) {
      return ops_.Sum(ops_.Mul(ops_.BatchMatMul(left.outer()->a, right.outer()->a, false, true),
                               ops_.BatchMatMul(left.outer()->g, right.outer()->g, false, true)),
                      {1, 2});
    }
    const int64_t examples = ops_.examples();
    if (left.rows() != nullptr && right.rows() != nullptr) {
      const Output a = left.rows()->indices, b = right.rows()->indices;
      const Output same = ops_.Op("Equal", {ops_.Reshape(a, {examples, a.shape().dim(1), 1}),
                                            ops_.Reshape(b, {examples, 1, b.shape().dim(1)})});
      const Output products = ops_.BatchMatMul(left.rows()->values, right.rows()->values, false, true);
      return ops_.Sum(ops_.Mul(products, ops_.Op("Cast", {same}, {{"DstT", products.dtype()}})), {1, 2});
    }
    // Rows of the outer products that indices name: a_s[index_t] · ⟨value_t, g_s⟩.
    const ExampleSum& table = left.rows() != nullptr ? left : right;
    const ExampleSum& matrix = left.rows() != nullptr ? right : left;
    const Output chosen =
        ops_.Op("GatherV2", {matrix.outer()->a, table.rows()->indices, ops_.scope().Const(Tensor::Scalar<int32_t>(2))},
                {{"batch_dims", int64_t{1}}});
    return ops_.Sum(ops_.Mul(chosen, ops_.BatchMatMul(matrix.outer()->g, table.rows()->values, false, true)), {1, 2});
  }

  const std::vector<ExampleSumPtr> parts_;
  Output each_;
};

std::vector<int64_t> DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

std::vector<int64_t> BatchOf(int64_t examples, const Shape& shape) {
  std::vector<int64_t> dims = {examples};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return dims;
}

std::optional<std::vector<int64_t>> Integers(Output output, int64_t rank) {
  const std::optional<Tensor> value = ConstantValue(output, [](Output o) -> const Shape& { return o.shape(); });
  if (!value || (value->dtype() != DType::kInt32 && value->dtype() != DType::kInt64)) return std::nullopt;
  std::vector<int64_t> all;
  if (value->dtype() == DType::kInt32) {
    for (const int32_t v : value->flat<int32_t>()) all.push_back(v < 0 ? v + rank : v);
  } else {
    for (const int64_t v : value->flat<int64_t>()) all.push_back(v < 0 ? v + rank : v);
  }
  return all;
}

// Sums that come from gradients' auxiliary ops instead of a layer's op.
ExampleSumResult SumOfAddends(ExampleSumContext& c) {
  std::vector<ExampleSumPtr> parts;
  for (const Output& input : c.node().inputs()) {
    if (c.ops().layouts().Of(input).none()) {
      if (input.node->type() == "ZerosLike") continue;
      return c.Refuse();
    }
    RIVULET_ASSIGN_OR_RETURN(ExampleSumPtr part, SumOfExamples(c.ops(), input));
    parts.push_back(std::move(part));
  }
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Tied>(c.ops(), c.sum().shape(), std::move(parts));
}

ExampleSumResult MovedSum(ExampleSumContext& c) {
  RIVULET_ASSIGN_OR_RETURN(ExampleSumPtr from, SumOfExamples(c.ops(), c.input(0)));
  ExampleOps& ops = c.ops();
  const Shape shape = c.sum().shape(), before = from->shape();
  const auto reshaped = [&ops, shape](Output sum) { return ops.Reshape(sum, DimsOf(shape)); };
  if (c.node().type() != "Transpose") {
    return std::make_unique<Moved>(ops, shape, std::move(from), reshaped, [](Output each) { return each; });
  }
  const auto order = Integers(c.input(1), before.rank());
  if (!order) return c.Refuse();
  const auto of_sum = [&ops, order](Output sum) { return ops.Op("Transpose", {sum, ops.Ints(*order)}); };
  const auto of_each = [&ops, order, before, shape](Output each) {
    std::vector<int64_t> moved = {0};
    for (const int64_t axis : *order) moved.push_back(axis + 1);
    const Output apart = ops.Reshape(each, BatchOf(ops.examples(), before));
    return ops.Reshape(ops.Op("Transpose", {apart, ops.Ints(moved)}), {ops.examples(), shape.elements()});
  };
  return std::make_unique<Moved>(ops, shape, std::move(from), of_sum, of_each);
}

ExampleSumResult NegatedSum(ExampleSumContext& c) {
  RIVULET_ASSIGN_OR_RETURN(ExampleSumPtr from, SumOfExamples(c.ops(), c.input(0)));
  ExampleOps& ops = c.ops();
  const auto negated = [&ops](Output x) { return ops.Op("Neg", {x}); };
  return std::make_unique<Moved>(ops, c.sum().shape(), std::move(from), negated, negated);
}

ExampleSumResult JoinedSum(ExampleSumContext& c) {
  const int last = static_cast<int>(c.node().inputs().size()) - 1;
  const auto axis = Integers(c.input(last), c.sum().shape().rank());
  if (!axis || axis->size() != 1) return c.Refuse();
  std::vector<ExampleSumPtr> parts;
  for (int i = 0; i < last; ++i) {
    RIVULET_ASSIGN_OR_RETURN(ExampleSumPtr part, SumOfExamples(c.ops(), c.input(i)));
    parts.push_back(std::move(part));
  }
  return std::make_unique<Joined>(c.ops(), c.sum().shape(), std::move(parts), static_cast<int>(axis->front()));
}

// A reduction over the examples' axis, possibly with others; or over other axes of a tensor that is already a sum.
ExampleSumResult SumOverAxes(ExampleSumContext& c) {
  ExampleOps& ops = c.ops();
  const Shape& x = c.input(0).shape();
  const auto axes = Integers(c.input(1), x.rank());
  if (!axes) return c.Refuse();
  const Shape shape = c.sum().shape();
  if (ops.layouts().Of(c.input(0)).mixed()) {
    RIVULET_ASSIGN_OR_RETURN(ExampleSumPtr from, SumOfExamples(ops, c.input(0)));
    const std::shared_ptr<ExampleSum> shared = std::move(from);
    return DirectSum(ops, shape, [&ops, shared, shape, axes] {
      std::vector<int64_t> moved;
      for (const int64_t axis : *axes) moved.push_back(axis + 1);
      const Output apart = ops.Reshape(shared->Each(), BatchOf(ops.examples(), shared->shape()));
      return ops.Reshape(ops.Sum(apart, moved), {ops.examples(), shape.elements()});
    });
  }
  const auto at = c.axis(0);
  if (!at || std::ranges::find(*axes, at->axis) == axes->end()) return c.Refuse();
  const Output input = c.input(0);
  return DirectSum(ops, shape, [&ops, input, at, axes, x, shape] {
    // The axis of the examples becomes three: outer, example, inner.
    std::vector<int64_t> dims, reduced;
    for (int axis = 0; axis < x.rank(); ++axis) {
      const bool here = axis == at->axis;
      if (here) dims.insert(dims.end(), {at->outer, ops.examples()});
      if (here && at->outer > 1) reduced.push_back(static_cast<int64_t>(dims.size()) - 2);
      if (here ? at->inner > 1 : std::ranges::find(*axes, axis) != axes->end())
        reduced.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(here ? at->inner : x.dim(axis));
    }
    Output sum = ops.Reshape(input, dims);
    if (!reduced.empty()) sum = ops.Sum(sum, reduced);
    // Axes before the examples' axis are moved behind it.
    int64_t before = 1;
    for (int axis = 0; axis < at->axis; ++axis)
      if (std::ranges::find(*axes, axis) == axes->end()) before *= x.dim(axis);
    if (before > 1) {
      sum = ops.Reshape(sum, {before, ops.examples(), shape.elements() / before});
      sum = ops.Op("Transpose", {sum, ops.Ints({1, 0, 2})});
    }
    return ops.Reshape(sum, {ops.examples(), shape.elements()});
  });
}

RIVULET_EXAMPLE_SUM("AddN", SumOfAddends);
RIVULET_EXAMPLE_SUM("Identity", MovedSum);
RIVULET_EXAMPLE_SUM("Reshape", MovedSum);
RIVULET_EXAMPLE_SUM("ExpandDims", MovedSum);
RIVULET_EXAMPLE_SUM("Squeeze", MovedSum);
RIVULET_EXAMPLE_SUM("Transpose", MovedSum);
RIVULET_EXAMPLE_SUM("Neg", NegatedSum);
RIVULET_EXAMPLE_SUM("ConcatV2", JoinedSum);
RIVULET_EXAMPLE_SUM("Sum", SumOverAxes);

}  // namespace

Output ExampleOps::Op(std::string_view op, std::vector<Output> inputs, AttrMap attrs) {
  for (const Output& input : inputs)
    if (!input) return {};
  return scope_.Op(op, std::move(inputs), std::move(attrs));
}

Output ExampleOps::Ints(std::vector<int64_t> values) {
  Tensor tensor(DType::kInt32, Shape{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(values[i]);
  return scope_.Const(std::move(tensor));
}

Output ExampleOps::Reshape(Output x, std::vector<int64_t> dims) {
  if (x && std::ranges::equal(x.shape().dims(), dims)) return x;
  return Op("Reshape", {x, Ints(std::move(dims))});
}

Output ExampleOps::Sum(Output x, std::vector<int64_t> axes) { return Op("Sum", {x, Ints(std::move(axes))}); }

Output ExampleOps::BatchMatMul(Output a, Output b, bool adjoint_a, bool adjoint_b) {
  return Op("BatchMatMulV2", {a, b}, {{"adj_x", adjoint_a}, {"adj_y", adjoint_b}});
}

Output ExampleOps::ByExample(Output x, const ExampleAxis& at) {
  if (!x) return {};
  const int64_t stride = ExampleLayouts::StrideAt(x.shape(), at), elements = x.shape().elements();
  const int64_t before = elements / stride / examples();
  if (before == 1) return Reshape(x, {examples(), stride});
  const Output apart = Reshape(x, {before, examples(), stride});
  return Reshape(Op("Transpose", {apart, Ints({1, 0, 2})}), {examples(), before * stride});
}

Output ExampleOps::Positions(Output matrix, const ExampleAxis& at) {
  if (!matrix) return {};
  const int64_t positions = at.outer * at.inner;
  if (at.axis == 0) return Reshape(ByExample(matrix, at), {examples(), positions, matrix.shape().dim(1)});
  const int64_t rows = matrix.shape().dim(0);
  const Output apart = Reshape(matrix, {rows, at.outer, examples(), at.inner});
  return Reshape(Op("Transpose", {apart, Ints({2, 1, 3, 0})}), {examples(), positions, rows});
}

Output ExampleOps::Weigh(Output x, const ExampleAxis& at, Output factors) {
  if (!x) return {};
  const std::vector<int64_t> dims(x.shape().dims().begin(), x.shape().dims().end());
  const int64_t stride = ExampleLayouts::StrideAt(x.shape(), at), before = x.shape().elements() / stride / examples();
  return Reshape(Mul(Reshape(x, {before, examples(), stride}), Reshape(factors, {1, examples(), 1})), dims);
}

Output ExampleOps::SquaredRows(Output each) {
  if (!each) return {};
  std::vector<int64_t> axes(static_cast<size_t>(each.shape().rank()) - 1);
  std::iota(axes.begin(), axes.end(), 1);
  return Sum(Op("Square", {each}), axes);
}

Status ExampleSumContext::Refuse() const {
  for (const Output& input : node().inputs()) {
    const ExampleLayout layout = ops_.layouts().Of(input);
    if (layout.mixed()) return Unimplemented("no gradient by example: {}", DescribeMixing(layout));
  }
  return Unimplemented("the gradient by example has no rule for {}", DescribeNode(node()));
}

Output ExampleSumContext::With(int i, Output input) const {
  std::vector<Output> inputs(node().inputs().begin(), node().inputs().end());
  inputs[static_cast<size_t>(i)] = input;
  for (const Output& each : inputs)
    if (!each) return {};
  Node* const copy = ops_.scope().AddNode(node().type(), std::move(inputs), node().attrs());
  return copy == nullptr ? Output{} : copy->output(sum_.port);
}

ExampleSumPtr DirectSum(ExampleOps& ops, Shape shape, std::function<Output()> each) {
  return std::make_unique<Direct>(ops, std::move(shape), std::move(each));
}

ExampleSumPtr OuterSum(ExampleOps& ops, Shape shape, ExampleSum::Outer outer, std::function<Output(Output)> weigh) {
  return std::make_unique<Outer>(ops, std::move(shape), outer, std::move(weigh));
}

ExampleSumPtr RowSum(ExampleOps& ops, Shape shape, ExampleSum::Rows rows, std::function<Output(Output)> weigh) {
  return std::make_unique<RowsSum>(ops, std::move(shape), rows, std::move(weigh));
}

ExampleSumPtr LargeSum(ExampleOps& ops, Shape shape, double each_cost, std::function<Output()> each,
                       std::function<Output(int64_t)> of_example, std::function<Output(Output)> weigh) {
  return std::make_unique<Large>(ops, std::move(shape), each_cost, std::move(each), std::move(of_example),
                                 std::move(weigh));
}

ExampleSumResult SumOfExamples(ExampleOps& ops, Output output) {
  const ExampleLayout layout = ops.layouts().Of(output);
  if (!output.shape().IsFullyKnown()) {
    return Unimplemented("the gradient by example of {}, whose shape {} is unknown", DescribeNode(*output.node),
                         output.shape().ToString());
  }
  // The fault is in the node that mixed examples before the sum, not in the sum.
  ExampleSumContext context(ops, output);
  const SumRule* const rule = SumRules().Find(output.node->type());
  if (layout.mixed() && rule != nullptr) return rule->apply(context);
  if (layout.mixed()) return Unimplemented("no gradient by example: {}", DescribeMixing(layout));
  return context.Refuse();
}

ExampleSumRegistration::ExampleSumRegistration(const char* op, ExampleSumFn rule) {
  SumRules().Add({op, std::move(rule)});
}

}  // namespace rivulet
