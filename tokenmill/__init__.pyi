from tokenmill import checks as checks
from tokenmill.api import agentic as agentic
from tokenmill.api import generate as generate
from tokenmill.api import knowledge as knowledge
from tokenmill.api import math as math
from tokenmill.api import models as models
from tokenmill.api import tools as tools
from tokenmill.inference.errors import RunStopped as RunStopped
from tokenmill.pipelines.runs.errors import RunFailed as RunFailed
from tokenmill.pipelines.transforms.rollout import Accepted as Accepted
from tokenmill.pipelines.transforms.rollout import Rejected as Rejected
from tokenmill.pipelines.transforms.rollout import Rollout as Rollout
from tokenmill.pipelines.transforms.rollout import Several as Several
from tokenmill.result import Run as Run
from tokenmill.schemas.documents import FailedRow as FailedRow
from tokenmill.schemas.flags import UsageError as UsageError

IMPORT_ROOT: str
IN_CHECKOUT: bool
COMMAND: tuple[str, ...]
PUBLIC: dict[str, str]
