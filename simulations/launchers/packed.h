// Serialization of text and numbers between processes of one program on one machine or cluster. Fields are read in the
// order of writing. Numbers are 8 bytes, text its length and its bytes. A read beyond the end gives empty text or 0,
// and ok() is then false, as it is after a value out of its range.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace rivulet {

class Packer {
 public:
  Packer& Text(std::string_view text) {
    Number(text.size());
    bytes_ += text;
    return *this;
  }
  template <typename T>
  Packer& Number(T number) {
    static_assert(sizeof(T) <= 8 && std::is_arithmetic_v<T>);
    char bytes[8] = {};
    std::memcpy(bytes, &number, sizeof(number));
    bytes_.append(bytes, sizeof(bytes));
    return *this;
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}  // borrows
  std::string_view Text() { return Piece(Number<size_t>()); }
  template <typename T>
  T Number() {
    T number{};
    if (const std::string_view piece = Piece(8); piece.size() == 8) std::memcpy(&number, piece.data(), sizeof(number));
    return number;
  }
  // A value of an enumeration from 0 to `last`.
  template <typename E>
  E OneOf(E last) {
    const auto number = Number<int64_t>();
    if (number >= 0 && number <= static_cast<int64_t>(last)) return static_cast<E>(number);
    ok_ = false;
    return E{};
  }
  void Refuse() { ok_ = false; }
  bool ok() const { return ok_; }

 private:
  std::string_view Piece(size_t size) {
    ok_ = ok_ && size <= bytes_.size();
    if (!ok_) return {};
    const std::string_view piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }

  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace rivulet
