// What is kept of a module while training goes on.

#include "ringrad/nn/state_dict.h"

#include <gtest/gtest.h>

#include "ringrad/autograd/methods/in_place.h"
#include "ringrad/nn/layers/linear.h"

namespace ringrad::nn {
namespace {

TEST(StateDictTest, AClonedStateKeepsWhatTrainingChanges) {
  Linear net(1, 1);
  fill_(net.weight.detach(), 1);
  const StateDict own = net.state_dict(), kept = clone_state(own);
  fill_(net.weight.detach(), 2);
  EXPECT_EQ(own.at("weight").item(), 2);
  EXPECT_EQ(kept.at("weight").item(), 1);
  EXPECT_FALSE(kept.at("weight").requires_grad());
  net.load_state_dict(kept);
  EXPECT_EQ(net.weight.item(), 1);
}

}  // namespace
}  // namespace ringrad::nn
