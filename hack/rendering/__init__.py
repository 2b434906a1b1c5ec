"""Pictures of the dashboards without Grafana: what ``hack/render-dashboards`` is made of.

``model.py`` reads a dashboard's JSON; ``variables.py`` fills in what Grafana fills in; ``prometheus.py`` asks a real
Prometheus; ``answers.py`` has the panels' queries answered. The rest draws with matplotlib: ``page.py`` puts panels
where ``gridPos`` says, ``lines.py``, ``heat.py``, ``numbers.py`` and ``rows.py`` draw the kinds of panels, ``look.py``
has fonts and colours, ``units.py`` writes values as Grafana does. ``command.py`` is the script.

It knows what hack/dashboards makes, not all that Grafana can do; what it does not know is an error, never a blank.
"""
