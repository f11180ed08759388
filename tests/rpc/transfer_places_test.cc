// The order of transfers: a few at a time, and slow ones do not block others.
#include "rpc/transfer_places.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace rivulet {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kLong = std::chrono::hours(1);
constexpr auto kGiveUp = std::chrono::seconds(20);

// Which have had their turn, in order.
class Turns {
 public:
  std::function<void()> Of(uint64_t transfer) {
    return [this, transfer] {
      MutexLock lock(mutex_);
      had_.push_back(transfer);
    };
  }
  std::vector<uint64_t> had() {
    MutexLock lock(mutex_);
    return had_;
  }
  bool Await(size_t count) {
    for (const auto end = Steady::now() + kGiveUp; Steady::now() < end;) {
      if (had().size() >= count) return true;
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }

 private:
  Mutex mutex_;
  std::vector<uint64_t> had_ GUARDED_BY(mutex_);
};

using Order = std::vector<uint64_t>;

TEST(TransferPlacesTest, TransfersBeyondThePlaces_HaveTheirTurnInOrderAsOthersLeave) {
  Turns turns;
  TransferPlaces places(2, {.pause = kLong});
  for (uint64_t i = 1; i <= 5; ++i) places.Enter(i, turns.Of(i));
  EXPECT_EQ(turns.had(), (Order{1, 2}));
  places.Leave(2);
  EXPECT_EQ(turns.had(), (Order{1, 2, 3}));
  places.Leave(77);
  places.Leave(1);
  places.Leave(3);
  EXPECT_EQ(turns.had(), (Order{1, 2, 3, 4, 5}));
  places.Leave(4);
  places.Leave(5);
}

TEST(TransferPlacesTest, TransferThatNobodyWaitsFor_GoesAtOnceAndTakesNoPlace) {
  Turns turns;
  TransferPlaces places(1, {.pause = kLong});
  for (uint64_t i = 1; i <= 3; ++i) places.Enter(i, turns.Of(i));
  places.Hurry(2);
  EXPECT_EQ(turns.had(), (Order{1, 2}));
  places.Hurry(1);  // has had its turn
  places.Leave(2);
  EXPECT_EQ(turns.had(), (Order{1, 2}));
  places.Leave(1);
  EXPECT_EQ(turns.had(), (Order{1, 2, 3}));
  places.Leave(3);
}

TEST(TransferPlacesTest, PeerThatIsWaitedForTooLong_HoldsNoPlace) {
  Turns turns;
  TransferPlaces places(1, {.pause = milliseconds(20)});
  places.Enter(1, turns.Of(1));
  places.Enter(2, turns.Of(2));
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(turns.had(), Order{1}) << "the server works for the first one, however long";
  places.Waiting(1);
  EXPECT_TRUE(turns.Await(2));
  places.Leave(1);
  places.Leave(2);
}

// One byte a moment would hold a place for ever if each byte were a sign of speed.
TEST(TransferPlacesTest, PeerThatCrawls_HoldsNoPlace) {
  Turns turns;
  TransferPlaces places(1, {.pause = milliseconds(50)});
  places.Enter(1, turns.Of(1));
  places.Enter(2, turns.Of(2));
  EXPECT_TRUE(places.KeepsUp(1));
  EXPECT_FALSE(places.KeepsUp(2)) << "it has not had its turn";
  for (const auto end = Steady::now() + kGiveUp; turns.had().size() < 2 && Steady::now() < end;) {
    places.Waiting(1);
    std::this_thread::sleep_for(milliseconds(5));
    places.Moved(1, 1);
  }
  EXPECT_EQ(turns.had().size(), 2u);
  EXPECT_FALSE(places.KeepsUp(1)) << "so it is sent small messages";
  EXPECT_TRUE(places.KeepsUp(2));
  places.Leave(1);
  places.Leave(2);
  EXPECT_FALSE(places.KeepsUp(2));
}

TEST(TransferPlacesTest, PeerThatIsFastAgain_HoldsItsPlaceAgain) {
  Turns turns;
  TransferPlaces places(1, {.bytes_per_second = 1'000'000, .pause = milliseconds(20)});
  places.Enter(1, turns.Of(1));
  places.Waiting(1);
  std::this_thread::sleep_for(milliseconds(60));
  places.Moved(1, 1'000'000);
  places.Enter(2, turns.Of(2));
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_EQ(turns.had(), Order{1});
  places.Leave(1);
  EXPECT_EQ(turns.had(), (Order{1, 2}));
  places.Leave(2);
}

}  // namespace
}  // namespace rivulet
