// Matchers and macros for Status and StatusOr.
//
//   EXPECT_OK(session->SetVariable("w", value));
//   ASSERT_OK_AND_ASSIGN(auto graph, ParseGraph(bytes));
//   EXPECT_THAT(ParseGraph("x"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no GraphDef")));
//   EXPECT_THAT(Partial::Parse(cut), StatusIs(absl::StatusCode::kDataLoss));
//
// A failure prints the code and the message that were found, so a test needs no `<< status` behind the assertion.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "engine/base/status.h"

namespace rivulet::testing {

inline const Status& StatusOf(const Status& status) { return status; }
template <typename T>
const Status& StatusOf(const StatusOr<T>& value) {
  return value.status();
}

// The message, or "no error": for lists of what is refused, and with which sentence.
inline std::string ErrorOf(const Status& status) { return status.ok() ? "no error" : std::string(Message(status)); }
template <typename T>
std::string ErrorOf(const StatusOr<T>& value) {
  return ErrorOf(value.status());
}

// For Not(IsOk()), where any error will do; that all is well is said by EXPECT_OK and ASSERT_OK.
MATCHER(IsOk, "is OK") {
  const Status& status = StatusOf(arg);
  if (!status.ok()) *result_listener << "which says: " << Message(status);
  return status.ok();
}

// What EXPECT_OK and ASSERT_OK ask. No matcher: one of those is compiled anew for every type, and these stand in
// every test program some hundred times.
inline ::testing::AssertionResult IsOkOrSays(const char* text, const Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "Value of: " << text
                                       << "\nExpected: is OK\n  Actual: " << absl::StatusCodeToString(status.code())
                                       << ": " << Message(status);
}
template <typename T>
::testing::AssertionResult IsOkOrSays(const char* text, const StatusOr<T>& value) {
  return IsOkOrSays(text, value.status());
}

template <typename MessageMatcher>
class StatusIsMatcher {
 public:
  StatusIsMatcher(absl::StatusCode code, MessageMatcher message)
      : code_(code), message_(::testing::SafeMatcherCast<const std::string&>(message)) {}
  template <typename T>
  operator ::testing::Matcher<T>() const {  // NOLINT: as gmock's polymorphic matchers
    return ::testing::Matcher<T>(new Impl<T>(code_, message_));
  }

 private:
  template <typename T>
  class Impl : public ::testing::MatcherInterface<T> {
   public:
    Impl(absl::StatusCode code, ::testing::Matcher<const std::string&> message)
        : code_(code), message_(std::move(message)) {}
    bool MatchAndExplain(T value, ::testing::MatchResultListener* listener) const override {
      const Status& status = StatusOf(value);
      *listener << "which is " << absl::StatusCodeToString(status.code()) << ": " << Message(status);
      return status.code() == code_ && message_.Matches(std::string(Message(status)));
    }
    void DescribeTo(std::ostream* out) const override {
      *out << "is " << absl::StatusCodeToString(code_) << " with a message that ";
      message_.DescribeTo(out);
    }

   private:
    absl::StatusCode code_;
    ::testing::Matcher<const std::string&> message_;
  };
  absl::StatusCode code_;
  ::testing::Matcher<const std::string&> message_;
};

// The code, and a matcher of (or exactly) the message; without one, any message.
template <typename MessageMatcher>
StatusIsMatcher<MessageMatcher> StatusIs(absl::StatusCode code, MessageMatcher message) {
  return {code, std::move(message)};
}
inline auto StatusIs(absl::StatusCode code) { return StatusIs(code, ::testing::_); }

}  // namespace rivulet::testing

#define EXPECT_OK(expr) EXPECT_PRED_FORMAT1(::rivulet::testing::IsOkOrSays, expr)
#define ASSERT_OK(expr) ASSERT_PRED_FORMAT1(::rivulet::testing::IsOkOrSays, expr)
#define ASSERT_OK_AND_ASSIGN(lhs, expr) ASSERT_OK_AND_ASSIGN_(RIVULET_CONCAT_(or_, __LINE__), lhs, expr)
#define ASSERT_OK_AND_ASSIGN_(result, lhs, expr) \
  auto result = (expr);                          \
  ASSERT_OK(result);                             \
  lhs = std::move(result).value()
