#include "engine/ops/einsum.h"

#include <algorithm>
#include <map>

#include "engine/ops/gradient_ops.h"
#include "engine/ops/shape_functions.h"

namespace rivulet {
namespace {

constexpr size_t kMaxEquation = 4096;  // characters: equations come from outside
constexpr size_t kMaxOperands = 32;
constexpr int kFirstEllipsisLabel = 256;

bool IsLabel(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// A term with "..." as one character.
StatusOr<std::string> ParseTerm(std::string_view term, std::string_view equation) {
  std::string labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term.substr(i, 3) == "...") {
      if (labels.find(EinsumEquation::kEllipsis) != std::string::npos)
        return InvalidArgument("equation '{}' has two ellipses in one term", equation);
      labels += EinsumEquation::kEllipsis;
      i += 2;
    } else if (IsLabel(term[i])) {
      labels += term[i];
    } else {
      return InvalidArgument("equation '{}' has '{}', which is neither a letter nor '...'", equation, term[i]);
    }
  }
  return labels;
}

std::string Written(const std::string& labels) {
  std::string text;
  for (char c : labels) text += c == EinsumEquation::kEllipsis ? std::string("...") : std::string(1, c);
  return text;
}

}  // namespace

StatusOr<EinsumEquation> EinsumEquation::Parse(std::string_view equation, size_t operands) {
  if (equation.size() > kMaxEquation)
    return InvalidArgument("an equation of {} characters; at most {} are possible", equation.size(), kMaxEquation);
  EinsumEquation parsed;
  const size_t arrow = equation.find("->");
  std::string_view left = equation.substr(0, arrow);
  while (true) {
    const size_t comma = left.find(',');
    RIVULET_ASSIGN_OR_RETURN(std::string term, ParseTerm(left.substr(0, comma), equation));
    parsed.inputs.push_back(std::move(term));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (operands > kMaxOperands)
    return InvalidArgument("an Einsum of {} operands; at most {} are possible", operands, kMaxOperands);
  if (parsed.inputs.size() != operands)
    return InvalidArgument("equation '{}' has {} terms for {} operands", equation, parsed.inputs.size(), operands);
  std::map<char, int> count;
  for (const std::string& term : parsed.inputs)
    for (char c : term) ++count[c];
  if (arrow == std::string_view::npos) {
    for (const auto& [label, times] : count)  // '.' comes before the letters
      if (label == kEllipsis || times == 1) parsed.output += label;
    return parsed;
  }
  RIVULET_ASSIGN_OR_RETURN(parsed.output, ParseTerm(equation.substr(arrow + 2), equation));
  for (char c : parsed.output)
    if (!count.contains(c))
      return InvalidArgument("equation '{}' has '{}' in its output, but in no operand", equation,
                             Written(std::string(1, c)));
  return parsed;
}

std::string EinsumEquation::ToString() const {
  std::string text;
  for (size_t i = 0; i < inputs.size(); ++i) text += (i > 0 ? "," : "") + Written(inputs[i]);
  return text + "->" + Written(output);
}

StatusOr<EinsumLabels> ResolveEinsum(const EinsumEquation& equation, const std::vector<Shape>& shapes) {
  EinsumLabels labels;
  labels.sizes.assign(kFirstEllipsisLabel, kUnknownDim);
  size_t most_repeated = 0;  // axes that the longest ellipsis stands for
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::string& term = equation.inputs[i];
    const Shape& shape = shapes[i];
    const bool ellipsis = term.find(EinsumEquation::kEllipsis) != std::string::npos;
    const size_t named = term.size() - (ellipsis ? 1 : 0), rank = static_cast<size_t>(shape.rank());
    if (ellipsis ? rank < named : rank != named)
      return InvalidArgument("'{}' names {} axes, but operand {} is {} of rank {}", Written(term), named, i,
                             shape.ToString(), rank);
    const size_t repeated = rank - named;
    most_repeated = std::max(most_repeated, ellipsis ? repeated : 0);
    labels.sizes.resize(std::max(labels.sizes.size(), kFirstEllipsisLabel + most_repeated), 1);
    std::vector<int>& axes = labels.inputs.emplace_back();
    for (char c : term) {
      if (c != EinsumEquation::kEllipsis) {
        const int64_t dim = shape.dim(static_cast<int>(axes.size()));
        int64_t& size = labels.sizes[static_cast<size_t>(c)];
        if (size != kUnknownDim && dim != kUnknownDim && size != dim)
          return InvalidArgument("label '{}' of '{}' has sizes {} and {}", c, equation.ToString(), size, dim);
        if (size == kUnknownDim) size = dim;
        axes.push_back(c);
        continue;
      }
      for (size_t j = repeated; j-- > 0;) {
        const int64_t dim = shape.dim(static_cast<int>(axes.size()));
        const size_t label = kFirstEllipsisLabel + j;
        RIVULET_ASSIGN_OR_RETURN(const Shape both, Shape::Broadcast(Shape({labels.sizes[label]}), Shape({dim})));
        labels.sizes[label] = both.dim(0);
        axes.push_back(static_cast<int>(label));
      }
    }
  }
  for (char c : equation.output) {
    if (c != EinsumEquation::kEllipsis) {
      labels.output.push_back(c);
      continue;
    }
    for (size_t j = most_repeated; j-- > 0;) labels.output.push_back(static_cast<int>(kFirstEllipsisLabel + j));
  }
  return labels;
}

namespace {

Status EinsumShape(InferenceContext& c) {
  RIVULET_ASSIGN_OR_RETURN(const auto equation,
                           EinsumEquation::Parse(c.attr<std::string>("equation"), static_cast<size_t>(c.num_inputs())));
  std::vector<Shape> shapes;
  bool known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    shapes.push_back(c.input(i));
    known = known && c.input(i).known_rank();
  }
  if (!known) {
    const bool ellipsis = equation.output.find(EinsumEquation::kEllipsis) != std::string::npos;
    c.set_output(0, ellipsis ? Shape::UnknownRank() : Shape(std::vector<int64_t>(equation.output.size(), kUnknownDim)));
    return absl::OkStatus();
  }
  RIVULET_ASSIGN_OR_RETURN(const EinsumLabels labels, ResolveEinsum(equation, shapes));
  std::vector<int64_t> dims;
  for (int label : labels.output) dims.push_back(labels.sizes[static_cast<size_t>(label)]);
  if (dims.size() > 254) return InvalidArgument("an output of {} dimensions; at most 254 are possible", dims.size());
  c.set_output(0, Shape(std::move(dims)));
  return absl::OkStatus();
}

bool Has(const std::string& term, char label) { return term.find(label) != std::string::npos; }

size_t NamedLabels(const std::string& term) { return term.size() - (Has(term, EinsumEquation::kEllipsis) ? 1 : 0); }

// How many axes the ellipsis of the whole equation stands for.
StatusOr<int> EllipsisAxes(const EinsumEquation& equation, GradientContext& g) {
  int most = 0;
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    if (!Has(equation.inputs[i], EinsumEquation::kEllipsis)) continue;
    const Shape& shape = g.input(static_cast<int>(i)).shape();
    if (!shape.known_rank())
      return Unimplemented(
          "the gradient of an Einsum with '...' for a number of axes that is unknown when it is built");
    most = std::max(most, shape.rank() - static_cast<int>(NamedLabels(equation.inputs[i])));
  }
  return most;
}

// The gradient of operand i is again an Einsum: of the output's gradient and the other operands, with operand i's term
// as its output. Labels that stand in operand i alone come from a tensor of ones; axes of "..." along which operand i
// was repeated are summed.
Status EinsumGradient(GradientContext& g) {
  GradientOps ops(g);
  const auto count = g.node()->inputs().size();
  RIVULET_ASSIGN_OR_RETURN(const auto equation, EinsumEquation::Parse(g.node()->attr<std::string>("equation"), count));
  RIVULET_ASSIGN_OR_RETURN(const int repeated, EllipsisAxes(equation, g));
  for (size_t i = 0; i < count; ++i) {
    const std::string& own = equation.inputs[i];
    const Output x = g.input(static_cast<int>(i));
    EinsumEquation backward;
    backward.inputs = {equation.output};
    std::vector<Output> operands = {g.grad()};
    std::string given = equation.output;
    for (size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      backward.inputs.push_back(equation.inputs[j]);
      operands.push_back(g.input(static_cast<int>(j)));
      given += equation.inputs[j];
    }
    if (std::ranges::any_of(own, [&](char label) { return !Has(given, label); })) {
      backward.inputs.push_back(own);
      operands.push_back(ops.Op("OnesLike", {x}));
    }
    const auto einsum = [&](const EinsumEquation& how, std::vector<Output> of) {
      return ops.Op("Einsum", std::move(of), {{"equation", how.ToString()}});
    };
    backward.output = own;
    const int own_repeated =
        Has(own, EinsumEquation::kEllipsis) ? x.shape().rank() - static_cast<int>(NamedLabels(own)) : repeated;
    Output gradient;
    if (own_repeated == repeated) {
      gradient = einsum(backward, std::move(operands));
    } else {  // the axes that operand i lacks come first, and go
      std::string named = own;
      std::erase(named, EinsumEquation::kEllipsis);
      backward.output = EinsumEquation::kEllipsis + named;
      gradient = einsum(backward, std::move(operands));
      std::vector<int64_t> lacking;
      for (int axis = 0; axis < repeated - own_repeated; ++axis) lacking.push_back(axis);
      gradient = ops.Sum(gradient, ops.Ints(std::move(lacking)), /*keep_dims=*/false);
      if (own.front() != EinsumEquation::kEllipsis) {
        std::vector<int64_t> order;
        int next_named = own_repeated;
        for (char label : own) {
          if (label != EinsumEquation::kEllipsis) {
            order.push_back(next_named++);
            continue;
          }
          for (int axis = 0; axis < own_repeated; ++axis) order.push_back(axis);
        }
        gradient = ops.Op("Transpose", {gradient, ops.Ints(std::move(order))});
      }
    }
    g.set_input_grad(static_cast<int>(i), Has(own, EinsumEquation::kEllipsis) ? ops.SumTo(gradient, x) : gradient);
  }
  return ops.status();
}

RIVULET_OP("Einsum")
    .Input("inputs: N * T")
    .Output("output: T")
    .Attr("equation: string")
    .Attr("N: int >= 1")
    .Attr("T: {half, bfloat16, float, double, int32, int64}")
    .Shape(EinsumShape)
    .Gradient(EinsumGradient)
    .Doc(
        "Products of the operands, summed over the labels that the output lacks: 'ij,jk->ik' is a matrix product, "
        "'ii->i' a diagonal, '...' stands for axes that are broadcast. Any number of operands, contracted pair by pair "
        "in the order of least cost.");

}  // namespace
}  // namespace rivulet
