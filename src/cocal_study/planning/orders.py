"""The order in which companions see what they learn from."""

from cocal.companion.spec import Order
from cocal_study.config.method import Experience

ORDERS: dict[Experience, Order] = {
    "rollouts": "chronological",
    "resampled": "shuffled",
    "prompts": "chronological",
    "online": "online",
}
"""Order of the training data of each experience: CoCal replays the policy's rollouts or their prompts in chronological
order, PostCal shuffles responses of the final policy (appendices A.1, B.2 and F.4), and online companions see each
rollout step when it is produced (section 4.1)."""
