#include "coordinator/ledger/state_book.h"

#include <gtest/gtest.h>

namespace rivulet {
namespace {

TaskId Trained(int64_t round, const std::string& client_id = "a", int64_t attempt = 1) {
  return TaskIdOf("run", {TaskKind::kTrain, round, attempt, client_id, 0});
}

TEST(StateBookTest, NewestFolded_IsTheState) {
  StateBook book("run");
  EXPECT_EQ(book.Of("a"), "");
  book.Folded(Trained(1));
  book.Folded(Trained(4, "a", 2));
  book.Folded("another-r9-a1-a-0");
  EXPECT_EQ(book.Of("a"), Trained(4, "a", 2));
  EXPECT_EQ(book.AsOf("a", 4), Trained(4, "a", 2));
  EXPECT_EQ(book.AsOf("a", 3), "") << "nobody had said that it would be asked for";
  book.Lost("a");
  EXPECT_EQ(book.Of("a"), "");
}

TEST(StateBookTest, AskedFrom_KeepsWhatIsSupersededAfterThatVersion) {
  StateBook book("run");
  for (const int64_t round : {1, 2}) book.Folded(Trained(round));
  book.AskedFrom(2);
  for (const int64_t round : {3, 5}) {
    book.Folded(Trained(round));
    book.Folded(Trained(round));  // again, as rows of a run that is resumed tell it
  }
  book.Folded(Trained(5, "b"));
  EXPECT_EQ(book.AsOf("a", 2), Trained(2));
  EXPECT_EQ(book.AsOf("a", 3), Trained(3));
  EXPECT_EQ(book.AsOf("a", 4), Trained(3));
  EXPECT_EQ(book.AsOf("a", 5), Trained(5));
  EXPECT_EQ(book.AsOf("b", 4), "");
  EXPECT_EQ(book.AsOf("c", 5), "");
}

TEST(StateBookTest, AskedFromALaterOne_ForgetsWhatWasSupersededBefore) {
  StateBook book("run");
  book.AskedFrom(1);
  for (const int64_t round : {1, 2, 3, 4}) book.Folded(Trained(round));
  book.AskedFrom(3);
  EXPECT_EQ(book.AsOf("a", 2), "");
  EXPECT_EQ(book.AsOf("a", 3), Trained(3));
  book.AskedFrom(std::nullopt);
  EXPECT_EQ(book.AsOf("a", 3), "");
  book.Folded(Trained(5));
  EXPECT_EQ(book.AsOf("a", 4), "");
  EXPECT_EQ(book.Of("a"), Trained(5));
}

}  // namespace
}  // namespace rivulet
