// JSON values, for command output, command input and the program's small state files. Only json.cc includes the JSON
// library: its header costs each including file two seconds of compilation.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

// One value: null, a boolean, a number, text, an array or an object. Written as it reads:
//   Json json = {{"name", name}, {"points", Json::Array()}};
//   json["points"].Append({{"round", 3}, {"loss", 0.5}});
// Braces make an object where each element is a pair of a text and a value, an array otherwise; what may be empty is
// said by Array() and Object(). An object keeps its members in the order in which they were put, each name once, and
// searches them one by one. Not thread-safe.
class Json {
 public:
  struct Member;

  // null
  Json();
  Json(std::nullptr_t) : Json() {}
  template <std::same_as<bool> T>
  Json(T value) : Json(Truth{value}) {}
  template <std::signed_integral T>
  Json(T value) : Json(Signed{value}) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : Json(Unsigned{value}) {}
  // NaN and infinities are written as null.
  template <std::floating_point T>
  Json(T value) : Json(Real{static_cast<double>(value)}) {}
  // Bytes that are no UTF-8 are mended when the value is written.
  Json(std::string text);
  Json(std::string_view text) : Json(std::string(text)) {}
  Json(const char* text) : Json(std::string(text)) {}
  // An array of the elements; of a map an object.
  template <std::ranges::input_range T>
  requires(!std::same_as<std::ranges::range_value_t<T>, char>) Json(const T& elements) : Json() {
    if constexpr (requires { typename T::mapped_type; }) {
      *this = Object();
      for (const auto& [name, value] : elements) PutNew(name, value);
    } else {
      *this = Array();
      for (const auto& element : elements) Append(element);
    }
  }
  Json(std::initializer_list<Json> elements);

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json Array();
  static Json Object();

  // INVALID_ARGUMENT, with the place and the reason: what is no JSON, and what is nested deeper than kMaxDepth. Of two
  // members of one name the later counts.
  static StatusOr<Json> Parse(std::string_view text);
  static constexpr int kMaxDepth = 200;

  // On one line; with an indent of 0 or more on lines of their own, nested ones further right by so many blanks.
  std::string Dump(int indent = -1) const;

  bool IsNull() const;
  bool IsNumber() const;
  bool IsInteger() const;  // a number written without point and exponent
  bool IsText() const;
  bool IsArray() const;
  bool IsObject() const;
  bool IsTrue() const;

  // What a value of the kind holds; of another kind "" and 0. An integer out of int64's range is its nearest bound.
  const std::string& text() const&;
  double number() const;
  int64_t integer() const;
  // Elements of an array, members of an object; of other kinds none.
  const std::vector<Json>& elements() const&;
  const std::vector<Member>& members() const&;
  // Not of a value that is gone before they are looked at ("for (… : Parsed().elements())").
  void text() && = delete;
  void elements() && = delete;
  void members() && = delete;
  size_t size() const;  // of both

  // nullptr where there is no such member, and of what is no object. It lives until the object changes.
  const Json* Find(std::string_view name) const&;
  void Find(std::string_view name) && = delete;
  // The member, or null where there is none.
  const Json& At(std::string_view name) const&;
  void At(std::string_view name) && = delete;
  bool Contains(std::string_view name) const& { return Find(name) != nullptr; }
  // The member, which is put as null where there is none. null becomes an object; of another kind it is a bug. The
  // reference holds until the object gets another member.
  Json& operator[](std::string_view name);

  // At the end of an array, which null becomes; of another kind it is a bug.
  void Append(Json element);

 private:
  class Reader;
  class Writer;
  struct Truth {
    bool value;
  };
  struct Signed {
    int64_t value;
  };
  struct Unsigned {
    uint64_t value;
  };
  struct Real {
    double value;
  };
  explicit Json(Truth value);
  explicit Json(Signed value);
  explicit Json(Unsigned value);
  explicit Json(Real value);

  // A member whose name is known to be new: without a search.
  void PutNew(std::string name, Json value);

  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<Json>, std::vector<Member>>
      value_;
};

struct Json::Member {
  std::string name;
  Json value;
};

}  // namespace rivulet
