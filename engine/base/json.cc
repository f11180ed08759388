#include "engine/base/json.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "engine/base/check.h"

namespace rivulet {
namespace {

// What writes JSON. Its objects keep the order of their members; they are searched one by one too.
using Written = nlohmann::ordered_json;

// Of members of one name the first place keeps the last value. They are sorted to be found: a hostile file may have
// many.
void KeepLastOfEachName(std::vector<Json::Member>& members) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) -> std::string_view { return members[i].name; });
  std::vector<bool> superseded(members.size());
  for (size_t i = 0, first = 0; i < order.size(); ++i) {
    if (members[order[i]].name != members[order[first]].name) first = i;
    if (i == first) continue;
    members[order[first]].value = std::move(members[order[i]].value);
    superseded[order[i]] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (superseded[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

}  // namespace

// Builds the value whose pieces the library's parser tells, in their order.
class Json::Reader final : public nlohmann::json_sax<Written> {
 public:
  StatusOr<Json> Read(std::string_view text) {
    if (!Written::sax_parse(text.begin(), text.end(), this)) return InvalidArgument("{}", error_);
    return std::move(root_);
  }

  bool null() override { return Add(Json()); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& text) override { return Add(std::move(text)); }
  bool binary(Written::binary_t&) override { return false; }  // not in text
  bool start_object(size_t) override { return Open(Object()); }
  bool start_array(size_t) override { return Open(Array()); }
  bool key(std::string& name) override {
    names_.push_back(std::move(name));
    return true;
  }
  bool end_object() override {
    KeepLastOfEachName(std::get<std::vector<Member>>(open_.back().value_));
    return Close();
  }
  bool end_array() override { return Close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    const std::string_view what = error.what();  // "[json.exception.parse_error.101] parse error at line …: REASON"
    error_ = what.substr(std::min(what.find(' ') + 1, what.size()));
    return false;
  }

 private:
  bool Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().IsArray()) {
      open_.back().Append(std::move(value));
    } else {
      open_.back().PutNew(std::move(names_.back()), std::move(value));
      names_.pop_back();
    }
    return true;
  }
  bool Open(Json empty) {
    if (open_.size() == static_cast<size_t>(kMaxDepth)) {
      error_ = fmt::format("nested deeper than {}", kMaxDepth);
      return false;
    }
    open_.push_back(std::move(empty));
    return true;
  }
  bool Close() {
    Json closed = std::move(open_.back());
    open_.pop_back();
    return Add(std::move(closed));
  }

  Json root_;
  std::vector<Json> open_;          // objects and arrays that are being read, the innermost last
  std::vector<std::string> names_;  // of members whose values are being read
  std::string error_;
};

// As the library has it.
class Json::Writer {
 public:
  static Written Of(const Json& json) {
    return std::visit([](const auto& value) { return Of(value); }, json.value_);
  }

 private:
  static Written Of(std::monostate) { return nullptr; }
  template <typename T>
  static Written Of(const T& value) {
    return value;
  }
  static Written Of(const std::vector<Json>& elements) {
    Written array = Written::array();
    for (const Json& element : elements) array.push_back(Of(element));
    return array;
  }
  // Appended without a search: the names differ.
  static Written Of(const std::vector<Member>& members) {
    Written object = Written::object();
    for (const Member& member : members) {
      object.get_ref<Written::object_t&>().emplace_back(member.name, Of(member.value));
    }
    return object;
  }
};

Json::Json() = default;
Json::Json(Truth value) : value_(value.value) {}
Json::Json(Signed value) : value_(value.value) {}
Json::Json(Unsigned value) : value_(value.value) {}
Json::Json(Real value) : value_(value.value) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json::Json(std::initializer_list<Json> elements) {
  const bool pairs = std::ranges::all_of(elements, [](const Json& element) {
    return element.IsArray() && element.size() == 2 && element.elements()[0].IsText();
  });
  *this = pairs ? Object() : Array();
  for (const Json& element : elements) {
    if (pairs) {
      (*this)[element.elements()[0].text()] = element.elements()[1];
    } else {
      Append(element);
    }
  }
}

Json Json::Array() {
  Json json;
  json.value_.emplace<std::vector<Json>>();
  return json;
}

Json Json::Object() {
  Json json;
  json.value_.emplace<std::vector<Member>>();
  return json;
}

StatusOr<Json> Json::Parse(std::string_view text) { return Reader().Read(text); }

bool Json::IsNull() const { return std::holds_alternative<std::monostate>(value_); }
bool Json::IsNumber() const { return IsInteger() || std::holds_alternative<double>(value_); }
bool Json::IsInteger() const {
  return std::holds_alternative<int64_t>(value_) || std::holds_alternative<uint64_t>(value_);
}
bool Json::IsText() const { return std::holds_alternative<std::string>(value_); }
bool Json::IsArray() const { return std::holds_alternative<std::vector<Json>>(value_); }
bool Json::IsObject() const { return std::holds_alternative<std::vector<Member>>(value_); }
bool Json::IsTrue() const {
  const bool* truth = std::get_if<bool>(&value_);
  return truth != nullptr && *truth;
}

const std::string& Json::text() const& {
  static const std::string none;
  const std::string* text = std::get_if<std::string>(&value_);
  return text == nullptr ? none : *text;
}

double Json::number() const {
  if (const double* real = std::get_if<double>(&value_)) return *real;
  if (const uint64_t* whole = std::get_if<uint64_t>(&value_)) return static_cast<double>(*whole);
  return static_cast<double>(integer());
}

int64_t Json::integer() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  if (const int64_t* whole = std::get_if<int64_t>(&value_)) return *whole;
  if (const uint64_t* whole = std::get_if<uint64_t>(&value_)) {
    return static_cast<int64_t>(std::min(*whole, static_cast<uint64_t>(kMost)));
  }
  const double* real = std::get_if<double>(&value_);
  if (real == nullptr || *real != *real) return 0;
  if (*real >= 0x1p63) return kMost;
  return *real <= -0x1p63 ? kLeast : static_cast<int64_t>(*real);
}

const std::vector<Json>& Json::elements() const& {
  static const std::vector<Json> none;
  const auto* elements = std::get_if<std::vector<Json>>(&value_);
  return elements == nullptr ? none : *elements;
}

const std::vector<Json::Member>& Json::members() const& {
  static const std::vector<Member> none;
  const auto* members = std::get_if<std::vector<Member>>(&value_);
  return members == nullptr ? none : *members;
}

size_t Json::size() const { return elements().size() + members().size(); }

const Json* Json::Find(std::string_view name) const& {
  const auto found = std::ranges::find(members(), name, &Member::name);
  return found == members().end() ? nullptr : &found->value;
}

const Json& Json::At(std::string_view name) const& {
  static const Json none;
  const Json* const found = Find(name);
  return found == nullptr ? none : *found;
}

Json& Json::operator[](std::string_view name) {
  if (IsNull()) *this = Object();
  auto* members = std::get_if<std::vector<Member>>(&value_);
  RIVULET_CHECK(members != nullptr, "'{}' of a value that is no object", name);
  const auto found = std::ranges::find(*members, name, &Member::name);
  if (found != members->end()) return found->value;
  return members->emplace_back(Member{std::string(name), Json()}).value;
}

void Json::Append(Json element) {
  if (IsNull()) *this = Array();
  auto* elements = std::get_if<std::vector<Json>>(&value_);
  RIVULET_CHECK(elements != nullptr, "an element of a value that is no array");
  elements->push_back(std::move(element));
}

void Json::PutNew(std::string name, Json value) {
  std::get<std::vector<Member>>(value_).push_back({std::move(name), std::move(value)});
}

std::string Json::Dump(int indent) const {
  return Writer::Of(*this).dump(indent, ' ', false, Written::error_handler_t::replace);
}

}  // namespace rivulet
