// Errors as values. Every function that can fail returns absl::Status or absl::StatusOr<T>. The message is one
// sentence, built with fmt, that names the failure, its input and the remedy:
//
//   return InvalidArgument("'{}' has {} examples; give the client at least one", client_id, examples);
//
// Codes are gRPC's and cross the wire unchanged.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rivulet {

using absl::Status;
using absl::StatusOr;

// Debian's absl::string_view and std::string_view are unrelated types; the house writes std::string_view everywhere.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }
inline std::string_view Message(const Status& status) { return ToStd(status.message()); }

namespace internal {
// Out of line, as are the functions below: an error is made once, and its sentence's making would stand wherever one
// may be.
[[nodiscard]] Status FormatError(absl::StatusCode code, fmt::string_view format, fmt::format_args args);
}  // namespace internal

#define RIVULET_DEFINE_ERROR(Name)                                                                          \
  template <typename... Args>                                                                               \
  [[nodiscard, gnu::cold, gnu::noinline]] Status Name(fmt::format_string<Args...> format, Args&&... args) { \
    return internal::FormatError(absl::StatusCode::k##Name, format, fmt::make_format_args(args...));        \
  }
RIVULET_DEFINE_ERROR(InvalidArgument)
RIVULET_DEFINE_ERROR(NotFound)
RIVULET_DEFINE_ERROR(AlreadyExists)
RIVULET_DEFINE_ERROR(FailedPrecondition)
RIVULET_DEFINE_ERROR(ResourceExhausted)
RIVULET_DEFINE_ERROR(OutOfRange)
RIVULET_DEFINE_ERROR(DataLoss)
RIVULET_DEFINE_ERROR(Unimplemented)
RIVULET_DEFINE_ERROR(Internal)
RIVULET_DEFINE_ERROR(Unavailable)
RIVULET_DEFINE_ERROR(Cancelled)
RIVULET_DEFINE_ERROR(Aborted)
RIVULET_DEFINE_ERROR(PermissionDenied)
RIVULET_DEFINE_ERROR(DeadlineExceeded)
#undef RIVULET_DEFINE_ERROR

// A message's sentence: its first line. Lines after it explain (an expression with the shapes of its operands).
inline std::string_view Sentence(std::string_view message) { return message.substr(0, message.find('\n')); }

// The same code and payloads with `context` and ": " before the message; OK stays OK.
inline Status Annotate(const Status& status, std::string_view context) {
  if (status.ok()) return status;
  Status annotated(status.code(), ToAbsl(fmt::format("{}: {}", context, Message(status))));
  status.ForEachPayload([&](absl::string_view key, const absl::Cord& value) { annotated.SetPayload(key, value); });
  return annotated;
}

}  // namespace rivulet

#define RIVULET_RETURN_IF_ERROR(expr)                  \
  do {                                                 \
    ::absl::Status rivulet_status_ = (expr);           \
    if (!rivulet_status_.ok()) return rivulet_status_; \
  } while (false)

#define RIVULET_CONCAT_INNER_(a, b) a##b
#define RIVULET_CONCAT_(a, b) RIVULET_CONCAT_INNER_(a, b)
// RIVULET_ASSIGN_OR_RETURN(auto tensor, ReadTensor(file));
#define RIVULET_ASSIGN_OR_RETURN(lhs, expr) \
  RIVULET_ASSIGN_OR_RETURN_IMPL_(RIVULET_CONCAT_(rivulet_or_, __LINE__), lhs, expr)
#define RIVULET_ASSIGN_OR_RETURN_IMPL_(result, lhs, expr) \
  auto result = (expr);                                   \
  if (!result.ok()) return std::move(result).status();    \
  lhs = std::move(result).value()
