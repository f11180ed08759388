#include "engine/base/missing_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "tests/testing/sanitized.h"

namespace rivulet {
namespace {

// More than any machine has. Read at run time: a compiler warns of such a size where it can see it.
volatile size_t too_much = size_t{1} << 60;

// A sanitizer's heap calls no handler: it ends the process itself, with a report.
class MissingMemory : public ::testing::Test {
  void SetUp() override {
    if (testing::kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  }
};

TEST_F(MissingMemory, WithoutAnEndFailsAsUsual) {
  EXPECT_THROW(::operator delete(::operator new(too_much)), std::bad_alloc);
  EXPECT_EQ(::operator new(too_much, std::nothrow), nullptr);
}

TEST_F(MissingMemory, EndsTheProcessBeforeAnythingIsUnwound) {
  EXPECT_EXIT(
      {
        EndWhereMemoryIsMissing([] { _exit(7); });
        try {
          ::operator delete(::operator new(too_much));
        } catch (const std::bad_alloc&) {
          _exit(8);
        }
      },
      ::testing::ExitedWithCode(7), "");
  EXPECT_EXIT(
      {
        EndWhereMemoryIsMissing([] { _exit(7); });
        _exit(::operator new(too_much, std::nothrow) == nullptr ? 8 : 9);
      },
      ::testing::ExitedWithCode(7), "");
}

TEST_F(MissingMemory, WhoMayBeRefusedIsToldAndNobodyAfterThem) {
  EXPECT_EXIT(
      {
        EndWhereMemoryIsMissing([] { _exit(7); });
        int refused = 0;
        {
          const MemoryMayBeRefused refusable;
          { const MemoryMayBeRefused inner; }
          if (::operator new (too_much, std::align_val_t{64}, std::nothrow) == nullptr) ++refused;
          try {
            ::operator delete(::operator new(too_much));
          } catch (const std::bad_alloc&) {
            ++refused;
          }
        }
        if (refused == 2) ::operator delete(::operator new(too_much));
        _exit(8);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace rivulet
