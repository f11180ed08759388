#include "dataflow/placement/rendezvous.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::HasSubstr;

const char* const kSender = "/job:localhost/replica:0/task:0/device:CPU:0";
const char* const kReceiver = "/job:localhost/replica:0/task:0/device:CPU:1";

TEST(RendezvousKeyTest, PrintsAsTensorFlowDoes) {
  const RendezvousKey key{kSender, 0xABC, kReceiver, "edge_5_y", 0, 3};
  EXPECT_EQ(key.ToString(), fmt::format("{};0000000000000abc;{};edge_5_y;0:3", kSender, kReceiver));
}

// Counts what a receive is told.
struct Receiver {
  int calls = 0;
  StatusOr<Tensor> value = Cancelled("nothing yet");
  Rendezvous::Done done() {
    return [this](StatusOr<Tensor> got) {
      ++calls;
      value = std::move(got);
    };
  }
};

TEST(RendezvousTest, SendFirstOrReceiveFirst_TheTensorArrives) {
  Rendezvous rendezvous;
  Receiver early, late;
  rendezvous.RecvAsync("a", {}, early.done());
  EXPECT_EQ(early.calls, 0);
  ASSERT_OK(rendezvous.Send("b", Tensor::Scalar(2.0f)));
  ASSERT_OK(rendezvous.Send("a", Tensor::Scalar(1.0f)));
  EXPECT_EQ(early.calls, 1);
  rendezvous.RecvAsync("b", {}, late.done());
  ASSERT_OK(early.value);
  ASSERT_OK(late.value);
  EXPECT_EQ(early.value->flat<float>()[0], 1.0f);
  EXPECT_EQ(late.value->flat<float>()[0], 2.0f);
}

TEST(RendezvousTest, TwoTensorsUnderOneKey_ArriveInOrder) {
  Rendezvous rendezvous;
  ASSERT_OK(rendezvous.Send("a", Tensor::Scalar(1.0f)));
  ASSERT_OK(rendezvous.Send("a", Tensor::Scalar(2.0f)));
  Receiver first, second;
  rendezvous.RecvAsync("a", {}, first.done());
  rendezvous.RecvAsync("a", {}, second.done());
  EXPECT_EQ(first.value->flat<float>()[0], 1.0f);
  EXPECT_EQ(second.value->flat<float>()[0], 2.0f);
}

TEST(RendezvousTest, Abort_WakesAllWhoWait_AndRefusesWhoComesLater) {
  Rendezvous rendezvous;
  Receiver one, two, later;
  rendezvous.RecvAsync("a", CancellationToken::Create(), one.done());
  rendezvous.RecvAsync("b", {}, two.done());
  ASSERT_OK(rendezvous.Send("c", Tensor::Scalar(1.0f)));
  rendezvous.Abort(DataLoss("the other part failed"));
  rendezvous.Abort(Internal("too late"));
  rendezvous.RecvAsync("c", {}, later.done());
  for (const Receiver* receiver : {&one, &two, &later}) {
    EXPECT_EQ(receiver->calls, 1);
    EXPECT_THAT(receiver->value, StatusIs(absl::StatusCode::kDataLoss, "the other part failed"));
  }
  EXPECT_THAT(rendezvous.Send("a", Tensor::Scalar(1.0f)), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("failed")));
}

TEST(RendezvousTest, EndOfTheRun_AbandonsWhoStillWaits) {
  Receiver receiver;
  {
    Rendezvous rendezvous;
    rendezvous.RecvAsync("a", {}, receiver.done());
  }
  EXPECT_EQ(receiver.calls, 1);
  EXPECT_THAT(receiver.value, StatusIs(absl::StatusCode::kAborted, HasSubstr("is over")));
}

TEST(RendezvousTest, Cancelled_BeforeOrWhileWaiting_EndsTheReceiveOnce) {
  Rendezvous rendezvous;
  const CancellationToken token = CancellationToken::Create();
  Receiver waiting, late;
  rendezvous.RecvAsync("a", token, waiting.done());
  token.Cancel();
  rendezvous.RecvAsync("b", token, late.done());
  for (const Receiver* receiver : {&waiting, &late}) {
    EXPECT_EQ(receiver->calls, 1);
    EXPECT_THAT(receiver->value, StatusIs(absl::StatusCode::kCancelled, HasSubstr("was cancelled")));
  }
  // The tensor that comes afterwards is not lost on the one who gave up.
  ASSERT_OK(rendezvous.Send("a", Tensor::Scalar(1.0f)));
  Receiver next;
  rendezvous.RecvAsync("a", {}, next.done());
  ASSERT_OK(next.value);
}

TEST(RendezvousTest, ReceivedThenCancelled_IsToldOnce) {
  Rendezvous rendezvous;
  const CancellationToken token = CancellationToken::Create();
  Receiver receiver;
  rendezvous.RecvAsync("a", token, receiver.done());
  ASSERT_OK(rendezvous.Send("a", Tensor::Scalar(1.0f)));
  token.Cancel();
  EXPECT_EQ(receiver.calls, 1);
  ASSERT_OK(receiver.value);
}

// However sends, receives and a cancellation interleave, each receive is told exactly once: its tensor or CANCELLED.
TEST(RendezvousTest, ConcurrentSendReceiveCancel_EveryReceiveIsToldOnce) {
  for (int round = 0; round < 50; ++round) {
    constexpr int kKeys = 64;
    std::vector<std::atomic<int>> told(kKeys);
    {
      Rendezvous rendezvous;
      const CancellationToken token = CancellationToken::Create();
      std::thread sender([&] {
        for (int i = 0; i < kKeys; ++i) (void)rendezvous.Send(std::to_string(i), Tensor::Scalar(static_cast<float>(i)));
      });
      std::thread receiver([&] {
        for (int i = 0; i < kKeys; ++i)
          rendezvous.RecvAsync(std::to_string(i), token, [&told, i](StatusOr<Tensor> value) {
            if (value.ok()) {
              EXPECT_EQ(value->flat<float>()[0], static_cast<float>(i));
            } else {
              EXPECT_NE(value.status().code(), absl::StatusCode::kInternal);
            }
            ++told[static_cast<size_t>(i)];
          });
      });
      std::thread canceller([&] { token.Cancel(); });
      sender.join();
      receiver.join();
      canceller.join();
    }
    for (int i = 0; i < kKeys; ++i) ASSERT_EQ(told[static_cast<size_t>(i)].load(), 1) << i;
  }
}

// As the call of a peer, whose request goes as soon as it is answered.
TEST(RendezvousTest, KeyAndTokenThatGoWithTheAnswer_AreNotUsedAfterIt) {
  struct Request {
    std::string key = "the key of a transfer, longer than a string keeps within itself";
    CancellationToken cancel = CancellationToken::Create();
  };
  for (int round = 0; round < 2000; ++round) {
    Rendezvous rendezvous;
    auto* const request = new Request;
    const std::string key = request->key;
    std::atomic<int> told = 0;
    std::thread sender([&] { (void)rendezvous.Send(key, Tensor::Scalar(1.0f)); });
    rendezvous.RecvAsync(request->key, request->cancel, [&told, request](const StatusOr<Tensor>& value) {
      EXPECT_OK(value);
      request->key.assign(request->key.size(), 'x');
      delete request;
      ++told;
    });
    sender.join();
    ASSERT_EQ(told.load(), 1);
  }
}

}  // namespace
}  // namespace rivulet
