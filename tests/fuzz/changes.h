// Changes of bytes for a search: of any bytes, and of those that have a structure which nearly every change would
// break.
#pragma once

#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace rivulet::fuzz {

// Changes bytes by themselves: libFuzzer, or ChangedBytes.
using ChangeBytes = std::function<std::string(std::string_view bytes)>;

// One to four of: a bit turned, a byte or a number at the edge of its range, a piece cut out, doubled, moved or taken
// from one of `others`, of which there is one.
std::string ChangedBytes(std::string bytes, std::span<const std::string> others, std::mt19937& random);

// One change of a protobuf message that leaves it one, whatever its schema: at any depth a field goes, comes again,
// changes places, gets another number or value or lies within itself, or a new one comes. What strings hold is changed
// by `change`, and lengths are made right. Bytes that are no message are changed by `change` alone.
std::string ChangedMessage(std::string_view message, std::mt19937& random, const ChangeBytes& change);

}  // namespace rivulet::fuzz
