#include "engine/graph/node_error.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/base/join.h"
#include "engine/graph/variable_name.h"

namespace rivulet {
namespace {

// Limits of an explanation: evaluations of the op, and drawn items.
constexpr int kMostQuestions = 512;
constexpr size_t kMostPaired = 12;  // dimensions
constexpr size_t kMostListed = 16;
constexpr size_t kMostOperands = 8;
constexpr size_t kMostOrigins = 6;
constexpr size_t kLongestText = 40;
constexpr int64_t kMostValues = 8;
constexpr int kOriginDepth = 2;
constexpr std::string_view kIndent = "    ";

struct Mark {
  enum class What { kDim, kShape, kType, kValue };
  int input = 0;
  What what = What::kShape;
  int axis = 0;
};

// The context of a shape function, with less known about some inputs. An input with a less known shape has no value
// either: functions rely on a value having its input's shape.
class Variation final : public InferenceContext {
 public:
  explicit Variation(InferenceContext& base) : base_(base) {}
  Shape& shape(int input) { return shapes_.try_emplace(input, base_.input(input)).first->second; }
  void HideValue(int input) { hidden_ = input; }

  std::string_view node_name() const override { return base_.node_name(); }
  int num_inputs() const override { return base_.num_inputs(); }
  const Shape& input(int i) const override {
    const auto found = shapes_.find(i);
    return found == shapes_.end() ? base_.input(i) : found->second;
  }
  DType input_dtype(int i) const override { return base_.input_dtype(i); }
  const Tensor* input_value(int i) const override { return Hidden(i) ? nullptr : base_.input_value(i); }
  std::optional<Shape> input_as_shape(int i) const override {
    return Hidden(i) ? std::nullopt : base_.input_as_shape(i);
  }
  const AttrMap& attrs() const override { return base_.attrs(); }
  const Function* FindFunction(std::string_view name) const override { return base_.FindFunction(name); }
  void set_output(int, Shape) override {}

 private:
  bool Hidden(int i) const { return i == hidden_ || shapes_.contains(i); }

  InferenceContext& base_;
  std::map<int, Shape> shapes_;
  int hidden_ = -1;
};

// Errors met during an explanation are not explained themselves: functions may call functions.
thread_local bool asking = false;

// Finds single dimensions and values without which there would be no error; else pairs of them; else whole shapes; else
// dimensions without which there would be another error (three that differ from each other).
std::vector<Mark> FindClash(const ShapeFn& shape, InferenceContext& context, const Status& error) {
  std::vector<Mark> causes, dims, shapes, parts;
  int questions = 0;
  const auto ask = [&](InferenceContext& question, const Mark& mark, std::vector<Mark>& found) {
    if (++questions > kMostQuestions) return;
    asking = true;
    const Status answer = shape(question);
    asking = false;
    if (answer.ok()) {
      found.push_back(mark);
    } else if (Message(answer) != Message(error) && mark.what == Mark::What::kDim) {
      parts.push_back(mark);
    }
  };
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.input_value(i) != nullptr) {
      const size_t before = causes.size();
      Variation less(context);
      less.HideValue(i);
      ask(less, {i, Mark::What::kValue}, causes);
      if (causes.size() > before) continue;  // any of its dimensions would hide the value too, and seem to be the cause
    }
    const Shape known = context.input(i);
    if (!known.known_rank()) continue;
    for (int axis = 0; axis < known.rank(); ++axis) {
      if (known.dim(axis) == kUnknownDim) continue;
      Variation less(context);
      less.shape(i).set_dim(axis, kUnknownDim);
      ask(less, {i, Mark::What::kDim, axis}, causes);
      dims.push_back({i, Mark::What::kDim, axis});
    }
  }
  if (!causes.empty()) return causes;
  // Two conflicts at once: a window too high and too wide.
  const std::vector<Mark> single = parts;
  for (size_t a = 0; a < dims.size() && dims.size() <= kMostPaired; ++a) {
    for (size_t b = a + 1; b < dims.size(); ++b) {
      Variation less(context);
      less.shape(dims[a].input).set_dim(dims[a].axis, kUnknownDim);
      less.shape(dims[b].input).set_dim(dims[b].axis, kUnknownDim);
      const size_t before = causes.size();
      ask(less, dims[a], causes);
      if (causes.size() > before) causes.push_back(dims[b]);
    }
  }
  if (!causes.empty()) return causes;
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.input(i).known_rank()) continue;
    Variation less(context);
    less.shape(i) = Shape::UnknownRank();
    ask(less, {i, Mark::What::kShape}, shapes);
  }
  if (!shapes.empty()) return shapes;
  return single;
}

std::string Shortened(std::string text) {
  if (text.size() <= kLongestText) return text;
  return "..." + text.substr(text.size() - kLongestText + 3);
}

// The name of an operand in an expression; for a variable's value, the variable's name.
std::string NameOf(Output output) {
  const Node& node = *output.node;
  if (node.type() == "ReadVariableOp") return Shortened(node.input(0).node->name());
  return Shortened(output.name());
}

// "[-1,784]" for a small tensor of integers; "" for others.
std::string Integers(const Tensor* value) {
  if (value == nullptr || value->elements() > kMostValues) return "";
  if (value->dtype() != DType::kInt32 && value->dtype() != DType::kInt64) return "";
  std::vector<int64_t> integers;
  for (int64_t i = 0; i < value->elements(); ++i)
    integers.push_back(value->dtype() == DType::kInt32 ? reinterpret_cast<const int32_t*>(value->data())[i]
                                                       : reinterpret_cast<const int64_t*>(value->data())[i]);
  if (value->shape().rank() == 0) return fmt::format("{}", integers[0]);
  return fmt::format("[{}]", Join(integers, ","));
}
const Tensor* ConstOf(Output output) {
  return output.node->type() == "Const" ? output.node->FindAttr<Tensor>("value") : nullptr;
}

// One operand in the drawing: its text in the expression, its shape below, and marks below that.
struct Cell {
  std::string name, shape, marks;
  bool marked = false;
};

class Drawing {
 public:
  Drawing(const OpDef& op, std::span<const Output> inputs, std::span<const Mark> marks)
      : op_(op), inputs_(inputs), marks_(marks) {}

  std::string Draw(const AttrMap& attrs, const ShapeLookup& shape_of) {
    std::string expression = op_.name + "(", shapes(expression.size(), ' '), marks = shapes;
    const size_t start = expression.size();
    size_t left_out = 0;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Cell cell = CellOf(i, shape_of);
      if (i >= kMostOperands && !cell.marked) {
        ++left_out;
        continue;
      }
      const size_t width = std::max({cell.name.size() + 1, cell.shape.size()}) + 1;  // a comma or bracket, and a space
      expression += cell.name + (i + 1 < inputs_.size() ? "," : "");
      shapes += cell.shape;
      marks += cell.marks;
      const size_t end = start + (columns_ += width);
      if (i + 1 < inputs_.size()) expression.resize(std::max(expression.size(), end), ' ');
      shapes.resize(end, ' ');
      marks.resize(end, ' ');
    }
    if (left_out > 0) expression += fmt::format("and {} more", left_out);
    for (const std::string& attribute : Attributes(attrs))
      expression += (expression.ends_with('(') ? "" : expression.ends_with(' ') ? "" : ", ") + attribute;
    expression += ")";
    std::string drawing;
    for (std::string* line : {&expression, &shapes, &marks}) {
      line->erase(line->find_last_not_of(' ') + 1);
      if (!line->empty()) drawing += fmt::format("\n{}{}", kIndent, *line);
    }
    return drawing + Origins(shape_of);
  }

 private:
  Cell CellOf(size_t i, const ShapeLookup& shape_of) const {
    const Output input = inputs_[i];
    const Shape& shape = shape_of(input);
    Cell cell{NameOf(input), "", "", false};
    const auto mark = [&](size_t begin, size_t end) {
      cell.marks.resize(std::max(cell.marks.size(), end), ' ');
      std::fill(cell.marks.begin() + static_cast<std::ptrdiff_t>(begin),
                cell.marks.begin() + static_cast<std::ptrdiff_t>(end), '^');
      cell.marked = true;
    };
    const auto is_marked = [&](Mark::What what, int axis = 0) {
      return std::ranges::any_of(marks_, [&](const Mark& each) {
        return each.input == static_cast<int>(i) && each.what == what && each.axis == axis;
      });
    };
    if (TypesClash()) {
      cell.shape += Name(input.dtype());
      if (is_marked(Mark::What::kType)) mark(0, cell.shape.size());
    }
    const size_t begin = cell.shape.size();
    if (!shape.known_rank()) {
      cell.shape += "[...]";
    } else {
      cell.shape += '[';
      for (int axis = 0; axis < shape.rank(); ++axis) {
        const size_t from = cell.shape.size() + (axis > 0);
        cell.shape += (axis > 0 ? "," : "") +
                      (shape.dim(axis) == kUnknownDim ? std::string("?") : std::to_string(shape.dim(axis)));
        if (is_marked(Mark::What::kDim, axis)) mark(from, cell.shape.size());
      }
      cell.shape += ']';
    }
    if (is_marked(Mark::What::kShape)) mark(begin, cell.shape.size());
    if (const std::string value = Integers(ConstOf(input)); !value.empty()) {
      cell.shape += " = ";
      const size_t from = cell.shape.size();
      cell.shape += value;
      if (is_marked(Mark::What::kValue)) mark(from, cell.shape.size());
    } else if (is_marked(Mark::What::kValue)) {
      mark(begin, cell.shape.size());
    }
    return cell;
  }

  bool TypesClash() const {
    return std::ranges::any_of(marks_, [](const Mark& mark) { return mark.what == Mark::What::kType; });
  }

  // Attributes that differ from their defaults, in the op's order: "transpose_b=true".
  std::vector<std::string> Attributes(const AttrMap& attrs) const {
    std::vector<std::string> texts;
    for (const AttrDef& def : op_.attrs) {
      const auto found = attrs.find(def.name);
      if (found == attrs.end()) continue;
      if (def.default_value && def.default_value->index() == found->second.index() &&
          Same(*def.default_value, found->second))
        continue;
      if (const bool* flag = std::get_if<bool>(&found->second)) {
        texts.push_back(fmt::format("{}={}", def.name, *flag));
      } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&found->second)) {
        if (static_cast<int64_t>(integers->size()) <= kMostValues)
          texts.push_back(fmt::format("{}=[{}]", def.name, Join(*integers, ",")));
      } else if (const auto* text = std::get_if<std::string>(&found->second)) {
        if (!text->empty() && text->size() <= kLongestText) texts.push_back(fmt::format("{}='{}'", def.name, *text));
      } else if (const int64_t* integer = std::get_if<int64_t>(&found->second)) {
        const bool counts_inputs =
            std::ranges::any_of(op_.inputs, [&](const ArgDef& arg) { return arg.number_attr == def.name; });
        if (!counts_inputs) texts.push_back(fmt::format("{}={}", def.name, *integer));
      }
    }
    return texts;
  }

  static bool Same(const AttrValue& a, const AttrValue& b) {
    return std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, bool> || std::is_same_v<T, std::string> ||
                        std::is_same_v<T, std::vector<int64_t>>) {
            return value == std::get<T>(b);
          } else {
            return false;
          }
        },
        a);
  }

  // Lines with the origins of the conflicting operands, and the origins of those.
  std::string Origins(const ShapeLookup& shape_of) const {
    std::string lines;
    std::vector<const Node*> told;
    std::vector<std::pair<const Node*, int>> queue;
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (marks_.empty() || std::ranges::any_of(marks_, [&](const Mark& m) { return m.input == static_cast<int>(i); }))
        queue.emplace_back(inputs_[i].node, 1);
    for (size_t next = 0; next < queue.size() && told.size() < kMostOrigins; ++next) {
      const auto [node, depth] = queue[next];
      if (std::ranges::find(told, node) != told.end()) continue;
      told.push_back(node);
      const bool read = node->type() == "ReadVariableOp";
      const Node* const origin = read ? node->input(0).node : node;
      std::string made;
      if (origin->type() == "VarHandleOp") {
        made = "variable";
      } else {
        std::vector<std::string> operands;
        for (size_t i = 0; i < origin->inputs().size() && i < kMostOperands; ++i)
          operands.push_back(Operand(origin->inputs()[i], shape_of));
        if (origin->inputs().size() > kMostOperands) operands.emplace_back("...");
        made = origin->inputs().empty() ? std::string(origin->type())
                                        : fmt::format("{}({})", origin->type(), Join(operands, ", "));
        if (depth < kOriginDepth)
          for (const Output& input : origin->inputs())
            if (!input.node->inputs().empty()) queue.emplace_back(input.node, depth + 1);
      }
      const std::string line = origin->source_line().empty() ? "" : fmt::format("  ({})", origin->source_line());
      // Constants and placeholders from a file add no information.
      if (origin->inputs().empty() && line.empty()) continue;
      lines += fmt::format("\n{}{} = {}{}", kIndent, Shortened(origin->name()), made, line);
    }
    return lines;
  }

  static std::string Operand(Output input, const ShapeLookup& shape_of) {
    if (const std::string value = Integers(ConstOf(input)); !value.empty()) return value;
    const Shape& shape = shape_of(input);
    return fmt::format("{}: {}", NameOf(input), shape.known_rank() ? shape.ToString() : "[...]");
  }

  const OpDef& op_;
  const std::span<const Output> inputs_;
  const std::span<const Mark> marks_;
  size_t columns_ = 0;
};

std::string Operands(std::span<const Output> inputs, const ShapeLookup& shape_of) {
  std::string operands;
  for (const Output& input : inputs.first(std::min(inputs.size(), kMostListed)))
    operands += fmt::format("{}'{}' {}{}", operands.empty() ? "" : ", ", input.name(), Name(input.dtype()),
                            shape_of(input).ToString());
  if (inputs.size() > kMostListed) operands += fmt::format(" and {} more", inputs.size() - kMostListed);
  return operands.empty() ? operands : fmt::format(" (inputs: {})", operands);
}

}  // namespace

Status ExplainShapeError(const InferenceNode& node, const ShapeLookup& shape_of, InferenceContext& context,
                         const Status& error) {
  const std::string_view message = Message(error), sentence = Sentence(message);
  if (sentence.size() < message.size()) return Annotate(error, node.where);
  std::string text = fmt::format("{}: {}{}", node.where, sentence, Operands(node.inputs, shape_of));
  if (!asking && !node.inputs.empty()) {
    const std::vector<Mark> marks = FindClash(node.op.shape, context, error);
    text += Drawing(node.op, node.inputs, marks).Draw(node.attrs, shape_of);
  }
  return Status(error.code(), ToAbsl(text));
}

Status ExplainTypeError(const OpDef& op, std::string_view where, const AttrMap& attrs, std::span<const Output> inputs,
                        const Status& error) {
  std::vector<DType> types;
  for (const Output& input : inputs) types.push_back(input.dtype());
  const auto fits = [&](std::span<const DType> given) {
    AttrMap resolved = attrs;
    return ResolveAttributes(op, where, given, resolved).ok();
  };
  // Searches an input with a type that would work if changed. Types of neighbouring inputs come first.
  std::vector<DType> others = types;
  for (const DType dtype : {DType::kFloat32, DType::kInt32, DType::kInt64, DType::kBool, DType::kResource})
    others.push_back(dtype);
  std::vector<Mark> marks;
  int questions = 0;
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<DType> changed = types;
    for (const DType other : others) {
      changed[i] = other;
      if (other == types[i] || ++questions > kMostQuestions || !fits(changed)) continue;
      marks.push_back({static_cast<int>(i), Mark::What::kType});
      break;
    }
  }
  size_t fixed = 0;
  bool any_number = false;
  for (const ArgDef& arg : op.inputs) {
    fixed += arg.number_attr.empty() && arg.type_list_attr.empty();
    any_number = any_number || !arg.number_attr.empty() || !arg.type_list_attr.empty();
  }
  const bool wrong_number = any_number ? inputs.size() < fixed : inputs.size() != fixed;
  if (inputs.empty() || (marks.empty() && !wrong_number)) return error;
  const ShapeLookup shape_of = [](Output output) -> const Shape& { return output.shape(); };
  return Status(error.code(), ToAbsl(fmt::format("{}{}{}", Message(error), Operands(inputs, shape_of),
                                                 Drawing(op, inputs, marks).Draw(attrs, shape_of))));
}

}  // namespace rivulet
