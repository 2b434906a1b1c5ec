"""Images pushed without a container engine: a base from a registry, with a layer of files on top.

``image_name`` reads names; ``folder`` and ``layer`` make the layer; ``image`` puts it onto a base; ``repository`` sends
and fetches, with the logins of ``docker_config`` and what ``tokens`` buys with them; ``push`` is all of it in order.
``required_packages`` makes a layer of what a program requires, by ``base_python``, which knows what the base has, and
``packages``, which has pip install the rest. ``operator_image`` makes the layer of the operator itself.
Decided in docs/adr/0038-registry-client.md and 0045-packages-in-an-image.md.
"""
