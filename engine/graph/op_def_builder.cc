// Parser of op signatures in TensorFlow's notation. Signatures are part of the program, so a malformed one is a bug and
// stops start-up with its place.
#include <cctype>
#include <charconv>

#include "engine/base/check.h"
#include "engine/graph/op.h"

namespace rivulet {
namespace {

using Kind = AttrDef::Kind;

// A cursor over one specification.
class SpecReader {
 public:
  SpecReader(std::string_view spec, const OpDef& op) : spec_(spec), rest_(spec), op_(op) {}

  void Space() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.front()))) rest_.remove_prefix(1);
  }
  bool Done() {
    Space();
    return rest_.empty();
  }
  bool Skip(std::string_view token) {
    Space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void Need(std::string_view token) { Require(Skip(token), token); }
  void Require(bool ok, std::string_view wanted) const {
    RIVULET_CHECK(ok, "Op '{}' ({}): '{}' wants {} at '{}'", op_.name, op_.registered_at, spec_, wanted, rest_);
  }
  std::string Word() {
    Space();
    size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) ++n;
    Require(n > 0, "a name");
    std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return word;
  }
  int64_t Int() {
    Space();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    Require(error == std::errc(), "an integer");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  float Float() {
    Space();
    float value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    Require(error == std::errc(), "a number");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  bool Bool() {
    if (Skip("true")) return true;
    Need("false");
    return false;
  }
  bool AtQuote() {
    Space();
    return !rest_.empty() && (rest_.front() == '\'' || rest_.front() == '"');
  }
  std::string Quoted() {
    Require(AtQuote(), "a quoted string");
    const char quote = rest_.front();
    rest_.remove_prefix(1);
    const size_t end = rest_.find(quote);
    Require(end != std::string_view::npos, "a closing quote");
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return value;
  }
  DType Type() {
    const StatusOr<DType> dtype = DTypeFromName(Word());
    Require(dtype.ok(), "a data type");
    return *dtype;
  }

 private:
  std::string_view spec_;
  std::string_view rest_;
  const OpDef& op_;
};

const std::vector<DType>& NumericTypes() {
  static const std::vector<DType> types = {DType::kFloat32, DType::kFloat64, DType::kInt32,  DType::kUint8,
                                           DType::kInt16,   DType::kInt8,    DType::kInt64,  DType::kBFloat16,
                                           DType::kUint16,  DType::kFloat16, DType::kUint32, DType::kUint64};
  return types;
}

const std::vector<DType>& FloatTypes() {
  static const std::vector<DType> types = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
  return types;
}

// "type", "realnumbertype", "floattype", "{float, double}", "{'SAME', 'VALID'}", "int", …: sets the kind (of one
// element) and the allowed values.
void ReadElementKind(SpecReader& in, AttrDef& attr) {
  if (in.Skip("{")) {
    const bool strings = in.AtQuote();
    attr.kind = strings ? Kind::kString : Kind::kType;
    do {
      if (strings) {
        attr.allowed_strings.push_back(in.Quoted());
      } else {
        attr.allowed_types.push_back(in.Type());
      }
    } while (in.Skip(","));
    in.Need("}");
    return;
  }
  const std::string word = in.Word();
  if (word == "int") {
    attr.kind = Kind::kInt;
  } else if (word == "float") {
    attr.kind = Kind::kFloat;
  } else if (word == "bool") {
    attr.kind = Kind::kBool;
  } else if (word == "string") {
    attr.kind = Kind::kString;
  } else if (word == "type") {
    attr.kind = Kind::kType;
  } else if (word == "numbertype" || word == "realnumbertype") {
    attr.kind = Kind::kType;
    attr.allowed_types = NumericTypes();
  } else if (word == "floattype") {
    attr.kind = Kind::kType;
    attr.allowed_types = FloatTypes();
  } else if (word == "shape") {
    attr.kind = Kind::kShape;
  } else if (word == "func") {
    attr.kind = Kind::kFunc;
  } else {
    in.Require(word == "tensor", "an attribute type");
    attr.kind = Kind::kTensor;
  }
}

Kind ListOf(Kind kind, const SpecReader& in) {
  switch (kind) {
    case Kind::kInt:
      return Kind::kIntList;
    case Kind::kFloat:
      return Kind::kFloatList;
    case Kind::kBool:
      return Kind::kBoolList;
    case Kind::kString:
      return Kind::kStringList;
    case Kind::kType:
      return Kind::kTypeList;
    case Kind::kShape:
      return Kind::kShapeList;
    case Kind::kFunc:
      return Kind::kFuncList;
    default:
      in.Require(false, "a list of another type");
      return kind;
  }
}

// "{ unknown_rank: true }", "{}" or "[2, -1]".
Shape ReadShape(SpecReader& in) {
  if (in.Skip("{")) {
    if (in.Skip("}")) return Shape{};
    in.Need("unknown_rank");
    in.Need(":");
    in.Need("true");
    in.Need("}");
    return Shape::UnknownRank();
  }
  in.Need("[");
  std::vector<int64_t> dims;
  if (in.Skip("]")) return Shape{};
  do dims.push_back(in.Int());
  while (in.Skip(","));
  in.Need("]");
  return Shape(std::move(dims));
}

template <typename T, typename Read>
AttrValue ReadList(SpecReader& in, Read read) {
  std::vector<T> values;
  in.Need("[");
  if (in.Skip("]")) return values;
  do values.push_back(read());
  while (in.Skip(","));
  in.Need("]");
  return values;
}

AttrValue ReadDefault(SpecReader& in, Kind kind) {
  switch (kind) {
    case Kind::kInt:
      return in.Int();
    case Kind::kFloat:
      return in.Float();
    case Kind::kBool:
      return in.Bool();
    case Kind::kString:
      return in.Quoted();
    case Kind::kType:
      return in.Type();
    case Kind::kShape:
      return ReadShape(in);
    case Kind::kIntList:
      return ReadList<int64_t>(in, [&] { return in.Int(); });
    case Kind::kFloatList:
      return ReadList<float>(in, [&] { return in.Float(); });
    case Kind::kBoolList:
      return ReadList<bool>(in, [&] { return in.Bool(); });
    case Kind::kStringList:
      return ReadList<std::string>(in, [&] { return in.Quoted(); });
    case Kind::kTypeList:
      return ReadList<DType>(in, [&] { return in.Type(); });
    case Kind::kShapeList:
      return ReadList<Shape>(in, [&] { return ReadShape(in); });
    case Kind::kTensor:
    case Kind::kFunc:
    case Kind::kFuncList:
      break;
  }
  in.Require(false, "no default for a tensor or a function");
  return int64_t{0};
}

ArgDef ReadArg(std::string_view spec, const OpDef& op) {
  SpecReader in(spec, op);
  ArgDef arg;
  arg.name = in.Word();
  in.Need(":");
  std::string type = in.Word();
  if (in.Skip("*")) {
    arg.number_attr = std::move(type);
    type = in.Word();
  }
  in.Require(in.Done(), "nothing more");
  if (const StatusOr<DType> dtype = DTypeFromName(type); dtype.ok()) {
    arg.dtype = *dtype;
  } else {
    arg.type_attr = std::move(type);  // Build() recognises a list(type) attribute, once the attributes are known
  }
  return arg;
}

}  // namespace

OpDefBuilder::OpDefBuilder(std::string name, const char* file, int line) {
  def_.name = std::move(name);
  std::string_view path = file;
  if (const size_t root = path.rfind("engine/"); root != std::string_view::npos) path.remove_prefix(root);
  def_.registered_at = fmt::format("{}:{}", path, line);
}

OpDefBuilder& OpDefBuilder::Input(std::string_view spec) {
  def_.inputs.push_back(ReadArg(spec, def_));
  return *this;
}

OpDefBuilder& OpDefBuilder::Output(std::string_view spec) {
  def_.outputs.push_back(ReadArg(spec, def_));
  return *this;
}

OpDefBuilder& OpDefBuilder::Attr(std::string_view spec) {
  SpecReader in(spec, def_);
  AttrDef attr;
  attr.name = in.Word();
  in.Need(":");
  const bool list = in.Skip("list");
  if (list) in.Need("(");
  ReadElementKind(in, attr);
  if (list) {
    in.Need(")");
    attr.kind = ListOf(attr.kind, in);
  }
  if (in.Skip(">=")) attr.minimum = in.Int();
  if (in.Skip("=")) attr.default_value = ReadDefault(in, attr.kind);
  in.Require(in.Done(), "nothing more");
  in.Require(def_.FindAttr(attr.name) == nullptr, "each attribute once");
  def_.attrs.push_back(std::move(attr));
  return *this;
}

OpDefBuilder& OpDefBuilder::Shape(ShapeFn fn) {
  def_.shape = std::move(fn);
  return *this;
}
OpDefBuilder& OpDefBuilder::Gradient(GradientFn fn) {
  def_.gradient = std::move(fn);
  return *this;
}
OpDefBuilder& OpDefBuilder::NotDifferentiable(std::string why) {
  def_.not_differentiable = std::move(why);
  return *this;
}
OpDefBuilder& OpDefBuilder::Stateful() {
  def_.stateful = true;
  return *this;
}
OpDefBuilder& OpDefBuilder::Doc(std::string doc) {
  def_.doc = std::move(doc);
  return *this;
}

OpDef OpDefBuilder::Build() const {
  OpDef def = def_;
  const auto resolve = [&](ArgDef& arg) {
    if (!arg.number_attr.empty()) {
      const AttrDef* number = def.FindAttr(arg.number_attr);
      RIVULET_CHECK(number != nullptr && number->kind == Kind::kInt, "Op '{}' ({}): '{}' has no int attribute '{}'",
                    def.name, def.registered_at, arg.name, arg.number_attr);
    }
    if (arg.type_attr.empty()) return;
    const AttrDef* type = def.FindAttr(arg.type_attr);
    const bool list = type != nullptr && type->kind == Kind::kTypeList && arg.number_attr.empty();
    RIVULET_CHECK(list || (type != nullptr && type->kind == Kind::kType),
                  "Op '{}' ({}): '{}' has no type attribute '{}'", def.name, def.registered_at, arg.name,
                  arg.type_attr);
    if (list) arg.type_list_attr = std::move(arg.type_attr);
    if (list) arg.type_attr.clear();
  };
  for (ArgDef& arg : def.inputs) resolve(arg);
  for (ArgDef& arg : def.outputs) resolve(arg);
  return def;
}

}  // namespace rivulet
