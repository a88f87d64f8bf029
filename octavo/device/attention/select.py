"""Choose an attention backend for each layer, and say why others were refused."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, fields

from octavo.device.attention.interface import AttentionBackend, AttentionSpec
from octavo.kit.errors import Unsupported
from octavo.kit.extension import ExtensionPoint

logger = logging.getLogger(__name__)

BACKENDS = ExtensionPoint(
    group="octavo.attention_backends",
    package="octavo.device.attention.backends",
    attribute="BACKEND",
)


@dataclass(slots=True)
class BackendChooser:
    """Gives each spec its backend: the preferred one, or any other that does not refuse.

    Equal specs share one instance.
    """

    preferred: str
    exact: bool
    """Refuse backends whose bits depend on the batch."""
    _chosen: dict[AttentionSpec, AttentionBackend] = field(default_factory=dict)

    def backend_for(self, spec: AttentionSpec) -> AttentionBackend:
        """Return the backend of ``spec``.

        Raises:
            Unsupported: every backend refuses; the message has each one's reason.
        """
        if spec not in self._chosen:
            self._chosen[spec] = self._choose(spec)(spec)
        return self._chosen[spec]

    def _choose(self, spec: AttentionSpec) -> type[AttentionBackend]:
        names = BACKENDS.names()
        if self.preferred not in names:
            raise Unsupported(
                f"attention_backend={self.preferred!r}: octavo has {', '.join(names)}. "
                "Name one of them with --attention-backend."
            )
        refusals: list[str] = []
        for name in sorted(names, key=lambda name: name != self.preferred):
            backend: type[AttentionBackend] = BACKENDS.load(name)
            reason = refusal(backend, spec, exact=self.exact)
            if reason is None:
                for refused in refusals:
                    logger.warning("attention backend %s serves instead of %s", name, refused)
                return backend
            refusals.append(f"{name} ({reason})")
        raise Unsupported(f"no attention backend fits {spec}: {'; '.join(refusals)}")


def refusal(backend: type[AttentionBackend], spec: AttentionSpec, *, exact: bool) -> str | None:
    """Why ``backend`` cannot serve ``spec``, or None. What it does not understand, it cannot."""
    for item in fields(spec):
        if item.name in backend.understands:
            continue
        value = getattr(spec, item.name)
        if value != item.default:
            return f"does not know {item.name}={value!r}"
    if exact and not backend.exact:
        return "its bits depend on the batch; --numerics fast admits it"
    return backend.refuses(spec)
